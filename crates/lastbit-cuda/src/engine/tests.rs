mod kernels;
mod networks;
mod refused;
mod steps;
mod tile_barriers;
