mod kernels;
mod networks;
mod steps;
