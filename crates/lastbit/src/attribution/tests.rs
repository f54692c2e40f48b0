//! Known answers: closed forms, and trainings whose linear step is computed by direct multiplication.

mod beltrami;
mod closed_forms;
mod trainings;
