mod applications;
mod bytes;
mod hostile;
mod numbers;

mod rules;
mod seeds;
mod world;
