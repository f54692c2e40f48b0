//! Values as dots along one axis, row by row, and where each dot stands.

use super::source;
use super::spread::Spread;
use crate::error::Error;
use crate::figure::{Quantity, Strip, Strips};
use crate::number::Number;
use crate::record::{Record, Store};

/// A value with its origin.
#[derive(Debug, Clone, PartialEq)]
pub struct Dot {
    /// The value, multiplied by the factor.
    pub value: f64,
    /// Where it comes from.
    pub origin: String,
}

/// The numbers of a row.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Its name, and how many of its values can be shown if not all.
    pub label: String,
    /// Its values as far as they are finished and finite.
    pub dots: Vec<Dot>,
    /// Whether all that it shows is the paper's.
    pub stated: bool,
    /// Mean of its values.
    pub mean: Option<f64>,
    /// Ends of its bar.
    pub bar: Option<[f64; 2]>,
    /// Whether the bar is an interval that was given.
    pub given: bool,
    /// What is taken away from all of them to show them.
    pub shift: f64,
}

/// Reads the rows.
pub fn read(store: &Store, record: &Record, strips: &Strips) -> Result<Vec<Row>, Error> {
    strips.rows.iter().map(|strip| row(store, record, strips, strip)).collect()
}

fn row(store: &Store, record: &Record, strips: &Strips, strip: &Strip) -> Result<Row, Error> {
    let number = |quantity: &Quantity| -> Result<Option<f64>, Error> {
        let value = source::quantity(store, record, quantity)?;
        Ok(value.map(|value| strips.factor * value).filter(|value| value.is_finite()))
    };
    let mut dots = Vec::new();
    for quantity in &strip.values {
        if let Some(value) = number(quantity)? {
            dots.push(Dot { value, origin: quantity.origin() });
        }
    }
    let interval = match &strip.interval {
        Some([low, high]) => number(low)?.zip(number(high)?).map(|(low, high)| [low, high]),
        None => None,
    };
    let spread = Spread::of(&dots.iter().map(|dot| dot.value).collect::<Vec<_>>());
    let middle = || interval.map(|[low, high]| (low + high) / 2.0);
    let mean = spread.map(|spread| spread.mean).or_else(middle);
    let scatter = || {
        let Spread { mean, std } = spread?;
        std.map(|std| [mean - std, mean + std])
    };
    let given = strip.interval.is_some();
    let is_stated = |quantity: &Quantity| matches!(quantity, Quantity::Stated(_));
    let label = if dots.len() == strip.values.len() {
        strip.label.clone()
    } else {
        format!("{} ({} of {} values)", strip.label, dots.len(), strip.values.len())
    };
    Ok(Row {
        label,
        stated: strip.values.iter().chain(strip.interval.iter().flatten()).all(is_stated),
        mean,
        bar: if given { interval } else { scatter() },
        given,
        shift: mean.filter(|_| strips.centred).unwrap_or(0.0),
        dots,
    })
}

impl Row {
    /// Mean and bar in words: `93.31 ± 0.16`, or `93.31 [93.10, 93.52]`.
    pub fn summary(&self) -> String {
        let Some(mean) = self.mean else { return "no values".to_owned() };
        let Some([low, high]) = self.bar else { return Number(mean).to_string() };
        let half = (high - low) / 2.0;
        if half <= 0.0 || !half.is_finite() {
            return format!("{} ± 0", Number(mean));
        }
        // Two digits of the bar, and as many decimals of the mean.
        let decimals = (1 - libm::log10(half).floor() as i32).clamp(0, 12) as usize;
        let text = |value: f64| format!("{value:.decimals$}");
        match self.given {
            true => format!("{} [{}, {}]", text(mean), text(low), text(high)),
            false => format!("{} ± {}", text(mean), text(half)),
        }
    }

    /// The values as they are shown.
    pub fn shown(&self) -> Vec<f64> {
        self.dots.iter().map(|dot| dot.value - self.shift).collect()
    }

    /// All that must lie within the axis.
    pub fn extent(&self) -> impl Iterator<Item = f64> {
        let dots = self.dots.iter().map(|dot| dot.value);
        let ends = self.bar.into_iter().flatten().chain(self.mean);
        let shift = self.shift;
        dots.chain(ends).map(move |value| value - shift).collect::<Vec<_>>().into_iter()
    }
}

/// An entry of the legend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// Values of one origin.
    Dot {
        /// The paper's.
        stated: bool,
    },
    /// The tick.
    Mean,
    /// The bar.
    Bar {
        /// An interval that was given.
        given: bool,
    },
}

impl Key {
    /// Its words.
    pub fn text(self) -> &'static str {
        match self {
            Self::Dot { stated: false } => "measured",
            Self::Dot { stated: true } => "the paper's",
            Self::Mean => "mean",
            Self::Bar { given: false } => "± standard deviation",
            Self::Bar { given: true } => "interval",
        }
    }
}

/// What these rows need a legend for.
pub fn keys(rows: &[Row]) -> Vec<Key> {
    let any = |holds: &dyn Fn(&Row) -> bool| rows.iter().any(holds);
    [
        (Key::Dot { stated: false }, any(&|row| !row.stated && !row.dots.is_empty())),
        (Key::Dot { stated: true }, any(&|row| row.stated && !row.dots.is_empty())),
        (Key::Mean, any(&|row| row.mean.is_some())),
        (Key::Bar { given: false }, any(&|row| row.bar.is_some() && !row.given)),
        (Key::Bar { given: true }, any(&|row| row.bar.is_some() && row.given)),
    ]
    .into_iter()
    .filter_map(|(key, occurs)| occurs.then_some(key))
    .collect()
}

/// Levels of dots at these places, so that any two on one level are at least `apart`.
///
/// From left to right each takes the free level nearest to the middle: 0, 1, −1, 2, −2 and so on.
pub fn stacked(places: &[f64], apart: f64) -> Vec<i32> {
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by(|a, b| places[*a].total_cmp(&places[*b]));
    let mut levels = vec![0; places.len()];
    for (done, dot) in order.iter().enumerate() {
        let near = order[..done].iter().filter(|other| places[*dot] - places[**other] < apart);
        let taken: Vec<i32> = near.map(|other| levels[*other]).collect();
        let outwards = (0..).map(|k: i32| if k % 2 == 1 { (k + 1) / 2 } else { -k / 2 });
        levels[*dot] = outwards.into_iter().find(|level| !taken.contains(level)).unwrap_or(0);
    }
    levels
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use proptest::prelude::*;

    fn rows(strips: &Strips) -> Vec<Row> {
        let out = tempfile::tempdir().unwrap();
        let (store, record) = sample::training(out.path());
        read(&store, &record, strips).unwrap()
    }

    fn strip(label: &str, values: &[f64], interval: Option<[f64; 2]>) -> Strip {
        Strip {
            label: label.into(),
            values: values.iter().map(|value| Quantity::from(*value)).collect(),
            interval: interval.map(|ends| ends.map(Quantity::from)),
        }
    }

    fn of(rows: Vec<Strip>, centred: bool) -> Strips {
        Strips { label: "accuracy, %".into(), factor: 100.0, centred, rows }
    }

    #[test]
    fn a_row_has_a_mean_and_a_bar() {
        let given = [
            strip("two", &[0.25, 0.75], None),
            strip("interval", &[0.25, 0.75], Some([0.0, 0.5])),
            strip("one", &[0.5], None),
            strip("interval alone", &[], Some([0.25, 0.75])),
            strip("a hole", &[0.5, f64::NAN], None),
            strip("equal", &[0.5, 0.5], None),
            strip("nothing", &[], None),
        ];
        let rows = rows(&of(given.to_vec(), false));
        let summaries: Vec<String> = rows.iter().map(Row::summary).collect();
        assert_eq!(
            summaries,
            ["50 ± 35", "50 [0, 50]", "50", "50 [25, 75]", "50", "50 ± 0", "no values"]
        );
        assert_eq!(rows[4].label, "a hole (1 of 2 values)");
        assert!(rows.iter().all(|row| row.shift == 0.0 && row.stated));
        assert_eq!(rows[6].extent().count(), 0);
    }

    #[test]
    fn centred_rows_lie_about_zero() {
        let given = [strip("high", &[0.75, 0.5], None), strip("low", &[0.25, 0.125], None)];
        let rows = rows(&of(given.to_vec(), true));
        assert_eq!(rows[0].shown(), [12.5, -12.5]);
        assert_eq!(rows[1].shown(), [6.25, -6.25]);
        assert_eq!(rows[0].summary(), "62 ± 18");
    }

    #[test]
    fn a_value_tells_its_origin() {
        let values = vec![("seed0", "test_accuracy-k1").into(), 0.5.into()];
        let row = rows(&of(vec![Strip::new("both", values)], false)).remove(0);
        assert_eq!(row.dots[0].origin, "seed0, test_accuracy-k1");
        assert_eq!(row.dots[1].origin, "stated in the paper");
        assert!(!row.stated);
    }

    #[test]
    fn equal_dots_are_stacked_about_the_middle() {
        assert_eq!(stacked(&[0.5; 5], 0.1), [0, 1, -1, 2, -2]);
        assert_eq!(stacked(&[0.5, 0.0, 0.25], 0.25), [0, 0, 0]);
        assert_eq!(stacked(&[], 0.1), [0; 0]);
    }

    proptest! {
        #![proptest_config(crate::fixed_seed())]

        #[test]
        fn no_two_dots_touch(places in prop::collection::vec(0.0..1.0_f64, 0..30)) {
            let levels = stacked(&places, 0.05);
            for a in 0..places.len() {
                for b in 0..a {
                    let same = levels[a] == levels[b];
                    prop_assert!(!same || (places[a] - places[b]).abs() >= 0.05);
                }
            }
        }
    }
}
