use super::*;
use crate::pde::textbook as book;

#[test]
fn quick_look() {
    for (name, scheme) in [
        ("heat", book::heat(1.0, 1.0)),
        ("heat scaled", book::heat(0.7, 0.3)),
        ("heat 2d", book::heat_2d(0.7, 0.3)),
        ("cn", book::heat_crank_nicolson(0.7, 0.3)),
        ("rd", book::reaction_diffusion(0.7, 2.5, 0.3)),
        ("rd2", book::reaction_diffusion_2d(0.7, 2.5, 0.3)),
        ("ftcs", book::advection_ftcs(1.7, 0.3)),
        ("upwind", book::advection_upwind(1.7, 0.3)),
        ("lw", book::advection_lax_wendroff(1.7, 0.3)),
        ("leapfrog", book::wave_leap_frog(1.7, 0.3)),
        ("nest", book::nesterov(1.4286e8, 0.9)),
        ("nestheat", book::nesterov_heat(1.0, 0.9, 1.0)),
    ] {
        let start = std::time::Instant::now();
        let steps = stable_steps(&scheme);
        println!("{name} {:?}", start.elapsed());
        for piece in &steps.pieces {
            println!("    {:e} {:e} width {:e} {:?}", piece.from, piece.to, piece.to / piece.from - 1.0, piece.kind);
        }
    }
}
