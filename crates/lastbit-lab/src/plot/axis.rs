//! The range of an axis, and where its ticks stand.

/// An axis with its range. Places on it go from 0 (left or bottom) to 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Scale {
    /// Ends of the axis: of the values, or of their decimal logarithms.
    low: f64,
    high: f64,
    log: bool,
}

/// A tick.
#[derive(Debug, Clone, PartialEq)]
pub struct Tick {
    /// Its place.
    pub at: f64,
    /// Text beside it; a minor tick has none.
    pub label: Option<String>,
}

/// Values beyond this are left out of a linear axis: their differences overflow.
const LARGEST: f64 = 1e300;
/// Share of the range left free at each end.
const MARGIN: f64 = 0.04;
/// Labelled ticks aimed at.
const TICKS: f64 = 6.0;

impl Scale {
    /// The axis that shows all of `values` that can be shown.
    pub fn of(values: impl Iterator<Item = f64>, log: bool) -> Self {
        let mut scale = Self { low: f64::INFINITY, high: f64::NEG_INFINITY, log };
        for shown in values.filter_map(|value| scale.shown(value)).collect::<Vec<_>>() {
            scale.low = scale.low.min(shown);
            scale.high = scale.high.max(shown);
        }
        if scale.low > scale.high {
            (scale.low, scale.high) = (0.0, 1.0);
        }
        // A span of less than some digits is no span: there would be no numbers to put ticks at.
        let size = scale.low.abs().max(scale.high.abs());
        if scale.high - scale.low <= 1e-12 * size || scale.low == scale.high {
            let half = if log || size == 0.0 { 0.5 } else { size / 10.0 };
            scale.low -= half;
            scale.high += half;
        } else {
            let margin = MARGIN * (scale.high - scale.low);
            scale.low -= margin;
            scale.high += margin;
        }
        scale
    }

    fn shown(&self, value: f64) -> Option<f64> {
        match self.log {
            true => (value > 0.0 && value.is_finite()).then(|| libm::log10(value)),
            false => (value.abs() <= LARGEST).then_some(value),
        }
    }

    fn fraction(&self, shown: f64) -> f64 {
        (shown - self.low) / (self.high - self.low)
    }

    /// Place of a value; none where the axis cannot show it.
    pub fn place(&self, value: f64) -> Option<f64> {
        self.shown(value).map(|shown| self.fraction(shown))
    }

    /// The ticks, from low to high.
    pub fn ticks(&self) -> Vec<Tick> {
        if self.log { self.log_ticks() } else { self.linear_ticks(self.low, self.high) }
    }

    /// Ticks at round values between `low` and `high`.
    fn linear_ticks(&self, low: f64, high: f64) -> Vec<Tick> {
        let (step, exponent) = round_step((high - low) / TICKS);
        let size = low.abs().max(high.abs());
        let first = (low / step).ceil();
        let counted = (0..20).map(|k| (first + f64::from(k)) * step);
        let within = counted.take_while(|value| *value <= high);
        let tick = |value: f64| {
            let label = Some(label(value, exponent, size));
            Tick { at: self.place(value).unwrap_or(0.0), label }
        };
        within.map(tick).collect()
    }

    /// Ticks at powers of ten; between them minor ones, or 2 and 5, or round values, as there is
    /// room.
    fn log_ticks(&self) -> Vec<Tick> {
        let decades = (self.low.ceil() as i32)..=(self.high.floor() as i32);
        let count = decades.clone().count();
        let stride =
            [1, 2, 5, 10, 20, 50].into_iter().find(|n| count <= 8 * n).unwrap_or(100) as i32;
        // From 0.001 to 10000 the numbers themselves are short.
        let plain = -3.1 < self.low && self.high < 4.1;
        let mut ticks = Vec::new();
        for decade in (self.low.floor() as i32)..=(self.high.floor() as i32) {
            for digit in 1..=9_u8 {
                let shown = f64::from(decade) + libm::log10(f64::from(digit));
                let named = match digit {
                    1 => decade.rem_euclid(stride) == 0,
                    2 | 5 => count < 3,
                    _ => false,
                };
                // Minor ticks only where they stay apart.
                let apart = named || count < if digit == 1 { 40 } else { 8 };
                if self.low <= shown && shown <= self.high && apart {
                    let label = named.then(|| power(digit, decade, plain));
                    ticks.push(Tick { at: self.fraction(shown), label });
                }
            }
        }
        if ticks.iter().filter(|tick| tick.label.is_some()).count() < 2 {
            return self.linear_ticks(libm::exp10(self.low), libm::exp10(self.high));
        }
        ticks
    }
}

/// The least of 1, 2, 5, 10 times a power of ten that is not below `step`, and its exponent.
///
/// It goes through decimal text, so that the steps are the nearest numbers to 0.1, 0.2, 0.5.
fn round_step(step: f64) -> (f64, i32) {
    let (mantissa, exponent) = scientific(step, 17);
    let (digit, exponent) = match mantissa {
        m if m <= 1.0 => (1, exponent),
        m if m <= 2.0 => (2, exponent),
        m if m <= 5.0 => (5, exponent),
        _ => (1, exponent + 1),
    };
    (format!("{digit}e{exponent}").parse().unwrap_or(step), exponent)
}

fn scientific(value: f64, digits: usize) -> (f64, i32) {
    let text = format!("{value:.digits$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    (mantissa.parse().unwrap_or(1.0), exponent.parse().unwrap_or(0))
}

/// `value` with as many digits as its neighbours at a distance of `10^step` need.
fn label(value: f64, step: i32, size: f64) -> String {
    if value == 0.0 {
        "0".to_owned()
    } else if (1e-3..1e5).contains(&size) {
        format!("{value:.*}", (-step).max(0) as usize).replace('-', "−")
    } else {
        let digits = (scientific(value, 1).1 - step).max(0) as usize;
        let text = format!("{value:.digits$e}").replace('-', "−");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        format!("{mantissa}×10{}", superscript(exponent))
    }
}

fn power(digit: u8, decade: i32, plain: bool) -> String {
    match (digit, decade) {
        _ if plain && decade < 0 => format!("0.{}{digit}", "0".repeat((-decade - 1) as usize)),
        _ if plain => format!("{digit}{}", "0".repeat(decade as usize)),
        (_, 0) => digit.to_string(),
        (1, _) => format!("10{}", superscript(&decade.to_string())),
        _ => format!("{digit}×10{}", superscript(&decade.to_string())),
    }
}

fn superscript(number: &str) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let raise = |c: char| c.to_digit(10).map_or('⁻', |digit| DIGITS[digit as usize]);
    number.chars().map(raise).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labels(values: &[f64], log: bool) -> Vec<String> {
        let ticks = Scale::of(values.iter().copied(), log).ticks();
        ticks.into_iter().filter_map(|tick| tick.label).collect()
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(labels(&[0.0, 1.0], false), ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels(&[-2e-6, 2e-6], false)[0], "−2×10⁻⁶");
        assert_eq!(labels(&[1e-8, 1.0], true), ["10⁻⁸", "10⁻⁶", "10⁻⁴", "10⁻²", "1"]);
        assert_eq!(labels(&[1.0, 30.0], true), ["1", "2", "5", "10", "20"]);
        assert_eq!(labels(&[0.01, 10.0], true), ["0.01", "0.1", "1", "10"]);
        assert_eq!(labels(&[0.97, 1.03], true), ["0.98", "1.00", "1.02"]);
    }

    #[test]
    fn what_cannot_be_shown_has_no_place() {
        let linear = Scale::of([0.0, 1.0].into_iter(), false);
        let log = Scale::of([0.1, 1.0].into_iter(), true);
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!((linear.place(value), log.place(value)), (None, None));
        }
        assert_eq!(log.place(0.0), None);
        assert_eq!(linear.place(0.5), Some(0.5));
    }

    proptest! {
        #![proptest_config(crate::fixed_seed())]

        #[test]
        fn any_values_have_ticks_within_the_axis(
            values in prop::collection::vec(any::<f64>(), 0..4),
            log: bool,
        ) {
            let scale = Scale::of(values.iter().copied(), log);
            let ticks = scale.ticks();
            prop_assert!(ticks.iter().any(|tick| tick.label.is_some()), "{scale:?}");
            // Rounding may move a tick at the very end by a few units of the last place.
            prop_assert!(ticks.iter().all(|tick| (-1e-3..=1.001).contains(&tick.at)), "{ticks:?}");
            for place in values.iter().filter_map(|value| scale.place(*value)) {
                prop_assert!((0.0..=1.0).contains(&place), "{place} in {scale:?}");
            }
        }
    }
}
