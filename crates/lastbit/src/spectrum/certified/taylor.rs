//! Remainders of the series of sine and cosine, and forms in two variables, with their errors.

use super::ball::Ball;
use super::symbol::Lag;

/// `Σ_a c_a e₁^{n−a} e₂^a`.
pub(super) fn form_value(form: &[Ball], e: [f64; 2]) -> Ball {
    let degree = form.len() - 1;
    monomials(form, e, |a| (degree - a, a, 1.0))
}

/// Its derivative by the angle.
pub(super) fn form_slope(form: &[Ball], e: [f64; 2]) -> Ball {
    let degree = form.len() - 1;
    let down = monomials(form, e, |a| (degree.saturating_sub(a + 1), a + 1, (degree - a) as f64));
    let up = monomials(form, e, |a| (degree - a + 1, a.saturating_sub(1), a as f64));
    up - down
}

fn monomials(form: &[Ball], e: [f64; 2], of: impl Fn(usize) -> (usize, usize, f64)) -> Ball {
    // Cosine and sine carry an error of two roundings each.
    let e = e.map(|entry| Ball { mid: entry, rad: 4.0 * f64::EPSILON });
    let power = |x: Ball, n: usize| (0..n).fold(Ball::exact(1.0), |power, _| power * x);
    form.iter().enumerate().fold(Ball::ZERO, |sum, (a, c)| {
        let (first, second, factor) = of(a);
        sum + *c * Ball::exact(factor) * power(e[0], first) * power(e[1], second)
    })
}

/// The sign of the first term of cosine that `tail` keeps.
pub(super) fn turn(n: usize) -> f64 {
    if n.is_multiple_of(4) { 1.0 } else { -1.0 }
}

/// `x^n/n!`, which bounds `|tail(n, x)|`.
pub(super) fn tail_bound(n: usize, x: f64) -> f64 {
    (1..=n).fold(1.0, |power, i| power * x / i as f64) * (1.0 + 1e-12)
}

/// `x^n/n! − x^{n+2}/(n+2)! + …` at `x = k·ξ`, with the rounding of `x` and its own. Cosine is `tail`
/// of 0, sine of 1.
pub(super) fn tail(n: usize, lag: Lag, xi: [f64; 2]) -> Ball {
    let parts = [f64::from(lag[0]) * xi[0], f64::from(lag[1]) * xi[1]];
    let x = parts[0] + parts[1];
    // Its derivative is bounded by `tail_bound(n − 1)`, or by 1.
    let of_argument = 2.0
        * f64::EPSILON
        * (parts[0].abs() + parts[1].abs())
        * if n == 0 { 1.0 } else { tail_bound(n - 1, parts[0].abs() + parts[1].abs()) };
    if x * x <= ((n + 1) * (n + 2)) as f64 {
        // Terms fall from the first on; 40 of them are below the last digit.
        let first = (1..=n).fold(1.0, |power, i| power * x / i as f64);
        let (mut sum, mut term) = (0.0, first);
        for m in (n..).step_by(2).take(40) {
            sum += term;
            term *= -x * x / ((m + 1) * (m + 2)) as f64;
        }
        // Term m carries n + 4m roundings; the sizes of all, so weighted, sum to less than 8 (n + 10)
        // times the first for all n up to 2 HIGHEST_ORDER.
        let rounding = (8 * (n + 10)) as f64 * f64::EPSILON * first.abs();
        return Ball { mid: sum, rad: 0.0 }.widened(rounding + of_argument);
    }
    let mut low = Ball::exact(if n.is_multiple_of(2) { libm::cos(x) } else { libm::sin(x) });
    // Both are accurate to an ulp of values up to 1.
    low = low.widened(2.0 * f64::EPSILON);
    let x = Ball::within(x, f64::EPSILON);
    // tail(m + 2) = x^m/m! − tail(m).
    for m in (n % 2..n).step_by(2) {
        let power = (1..=m).fold(Ball::exact(1.0), |power, i| {
            power * x * Ball::within(1.0 / i as f64, f64::EPSILON)
        });
        low = power - low;
    }
    low.widened(of_argument)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_are_continuous_where_the_method_changes_and_bounded() {
        for n in 0..12 {
            let turn = f64::sqrt(((n + 1) * (n + 2)) as f64);
            for x in [1e-3, 0.1, 0.9 * turn, turn * (1.0 - 1e-15), turn * (1.0 + 1e-15), 1.5 * turn]
            {
                let found = tail(n, [1, 0], [x, 0.0]);
                assert!(found.mid.abs() <= tail_bound(n, x) + found.rad, "{n} {x}");
                // tail(n) + tail(n + 2) = xⁿ/n!, whichever way each was computed.
                let power = (1..=n).fold(1.0, |power, i| power * x / i as f64);
                let gap = found + tail(n + 2, [1, 0], [x, 0.0]) - Ball::within(power, 1e-14);
                assert!(gap.holds_zero(), "{n} {x}: {gap:?}");
                // Small: a relative error of some hundred roundings of the first term.
                assert!(found.rad <= 2e-13 * tail_bound(n, x).max(1.0), "{n} {x}: {found:?}");
            }
        }
        let half = tail(0, [2, 1], [0.5, -0.25]);
        assert!((half.mid - libm::cos(0.75)).abs() <= half.rad);
        // To all digits where cos x − 1 would have none left.
        let small = tail(2, [1, 0], [1e-9, 0.0]);
        assert!((small.mid / 5e-19 - 1.0).abs() < 1e-15 && small.rad < 1e-31);
    }

    #[test]
    fn a_form_and_its_slope() {
        // 3 x² + 2 xy − y² at 30 degrees; its derivative by the angle is (−8 xy) + 2 (x² − y²).
        let form = [3.0, 2.0, -1.0].map(Ball::exact);
        let (x, y) = (f64::sqrt(0.75), 0.5);
        let value = form_value(&form, [x, y]);
        assert!((value.mid - (3.0 * x * x + 2.0 * x * y - y * y)).abs() <= value.rad);
        let slope = form_slope(&form, [x, y]);
        assert!((slope.mid - (-8.0 * x * y + 2.0 * (x * x - y * y))).abs() <= slope.rad);
        assert!(slope.rad < 1e-13);
    }
}
