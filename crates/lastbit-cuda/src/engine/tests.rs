mod kernels;
mod networks;
mod refused;
mod steps;
