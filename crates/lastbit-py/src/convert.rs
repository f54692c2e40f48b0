//! Names and data from Python, and arrays to Python.

use std::path::PathBuf;

use lastbit::named::Named;
use lastbit_lab::Error;
use lastbit_lab::input::{Data, Source};
use lastbit_lab::series::{Field, Series};
use numpy::{
    IntoPyArray, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::exception;

/// The choice of this name, for this argument.
pub fn named<T: Named>(argument: &str, name: &str) -> PyResult<T> {
    T::from_name(name).ok_or_else(|| {
        exception(Error::setting(argument, name, format!("one of {}", T::NAMES.join(", "))))
    })
}

/// A line or an image: the file it is in, or a contiguous array.
#[derive(FromPyObject)]
pub enum Values<'py> {
    /// A file.
    File(PathBuf),
    /// Values on a line.
    Line(PyReadonlyArray1<'py, f64>),
    /// Values in the plane.
    Plane(PyReadonlyArray2<'py, f64>),
}

impl Values<'_> {
    /// A line or an image. A run keeps its data, so that an array is copied once.
    pub fn data(self) -> PyResult<Source<Data>> {
        Ok(match self {
            Self::File(path) => Source::File(path),
            Self::Line(line) => Source::Memory(Data::Signal(line.as_slice()?.to_vec())),
            Self::Plane(plane) => {
                let [height, width] = [plane.shape()[0], plane.shape()[1]];
                let values = plane.as_slice()?.to_vec();
                Source::Memory(Data::Image(Field { height, width, values }))
            }
        })
    }

    /// A line, for this argument.
    pub fn line(self, argument: &str) -> PyResult<Source<Vec<f64>>> {
        match self.data()? {
            Source::File(path) => Ok(Source::File(path)),
            Source::Memory(Data::Signal(values)) => Ok(Source::Memory(values)),
            Source::Memory(Data::Image(_)) => {
                Err(exception(Error::setting(argument, "an image", "values on a line")))
            }
        }
    }

    /// An image, for this argument.
    pub fn image(self, argument: &str) -> PyResult<Source<Field>> {
        match self.data()? {
            Source::File(path) => Ok(Source::File(path)),
            Source::Memory(Data::Image(field)) => Ok(Source::Memory(field)),
            Source::Memory(Data::Signal(_)) => {
                Err(exception(Error::setting(argument, "values on a line", "an image")))
            }
        }
    }
}

/// The columns of a table, without copies.
pub fn columns(py: Python<'_>, series: Series) -> PyResult<Bound<'_, PyDict>> {
    let found = PyDict::new(py);
    for (name, values) in series.columns {
        found.set_item(name, values.into_pyarray(py))?;
    }
    Ok(found)
}

/// An array of two dimensions, without a copy.
pub fn plane(py: Python<'_>, field: Field) -> PyResult<Bound<'_, PyAny>> {
    let Field { height, width, values } = field;
    Ok(values.into_pyarray(py).reshape([height, width])?.into_any())
}
