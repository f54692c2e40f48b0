//! The barriers of `tiles.cu`, in every order in which warps can run.
//!
//! Fillers and workers of a block share the places of tiles, and two barriers for each place keep them apart.
//! Here both are short programs of reads, writes and barriers, as `conv3x3.cu` and `weights3x3.cu` have them, and
//! every order of their steps is tried: a worker must find the whole of its tile, nobody may write where
//! somebody reads, and all must come to an end. A barrier counts who comes and knows no more, as on the device:
//! one who came twice would open it too early.

use std::collections::HashSet;

/// What a warp does next. Reads and writes begin and end, so that they can overlap.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Comes to a barrier and waits there.
    Meet(usize),
    /// Comes to a barrier and goes on.
    Come(usize),
    Begin,
    EndWrite {
        place: usize,
        tile: usize,
    },
    EndRead {
        place: usize,
        tile: usize,
    },
}

impl Step {
    fn reads_at(self, place: usize) -> bool {
        matches!(self, Self::EndRead { place: there, .. } if there == place)
    }

    fn writes_at(self, place: usize) -> bool {
        matches!(self, Self::EndWrite { place: there, .. } if there == place)
    }
}

const FILLERS: usize = 2;
const WORKERS: usize = 2;

fn full(place: usize) -> usize {
    place
}

fn empty(stages: usize, place: usize) -> usize {
    stages + place
}

fn filler(stages: usize, tiles: usize) -> Vec<Step> {
    let mut steps = Vec::new();
    for tile in 0..tiles {
        let place = tile % stages;
        if tile >= stages {
            steps.push(Step::Meet(empty(stages, place)));
        }
        steps.push(Step::Begin);
        steps.push(Step::EndWrite { place, tile });
        steps.push(Step::Come(full(place)));
    }
    steps
}

fn worker(stages: usize, tiles: usize) -> Vec<Step> {
    let mut steps = Vec::new();
    for tile in 0..tiles {
        let place = tile % stages;
        steps.push(Step::Meet(full(place)));
        steps.push(Step::Begin);
        steps.push(Step::EndRead { place, tile });
        if tile + stages < tiles {
            steps.push(Step::Come(empty(stages, place)));
        }
    }
    steps
}

/// A moment of a block of warps, fillers first.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Moment {
    /// The step each warp is at.
    at: [usize; FILLERS + WORKERS],
    /// The barrier each warp waits at.
    waits: [Option<usize>; FILLERS + WORKERS],
    /// How many have come to each barrier.
    come: Vec<usize>,
    /// The tile that each filler last put into each place.
    holds: Vec<[Option<usize>; FILLERS]>,
}

/// Tries all orders; says what went wrong in the first that does.
fn try_all(stages: usize, programs: [Vec<Step>; FILLERS + WORKERS]) -> Result<usize, String> {
    let warps = FILLERS + WORKERS;
    let first = Moment {
        at: [0; FILLERS + WORKERS],
        waits: [None; FILLERS + WORKERS],
        come: vec![0; 2 * stages],
        holds: vec![[None; FILLERS]; stages],
    };
    let mut seen = HashSet::from([first.clone()]);
    let mut open = vec![first];
    while let Some(now) = open.pop() {
        let able: Vec<usize> = (0..warps)
            .filter(|&warp| now.waits[warp].is_none() && now.at[warp] < programs[warp].len())
            .collect();
        if able.is_empty() && (0..warps).any(|warp| now.at[warp] < programs[warp].len()) {
            return Err(format!("warps wait for ever, at steps {:?}", now.at));
        }
        for warp in able {
            let next = advance(&now, warp, &programs)?;
            if seen.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    Ok(seen.len())
}

fn advance(now: &Moment, warp: usize, programs: &[Vec<Step>]) -> Result<Moment, String> {
    let mut next = now.clone();
    let step = programs[warp][now.at[warp]];
    match step {
        Step::Meet(barrier) | Step::Come(barrier) => {
            next.come[barrier] += 1;
            if matches!(step, Step::Meet(_)) {
                next.waits[warp] = Some(barrier);
            } else {
                next.at[warp] += 1;
            }
            if next.come[barrier] == programs.len() {
                next.come[barrier] = 0;
                for other in 0..programs.len() {
                    if next.waits[other] == Some(barrier) {
                        next.waits[other] = None;
                        next.at[other] += 1;
                    }
                }
            }
            return Ok(next);
        }
        Step::Begin => {}
        Step::EndWrite { place, tile } => {
            if let Some(reader) = under_way(now, programs, |step| step.reads_at(place)) {
                return Err(format!("tile {tile} is written where warp {reader} reads"));
            }
            next.holds[place][warp] = Some(tile);
        }
        Step::EndRead { place, tile } => {
            if let Some(writer) = under_way(now, programs, |step| step.writes_at(place)) {
                return Err(format!("tile {tile} is read where warp {writer} writes"));
            }
            if now.holds[place] != [Some(tile); FILLERS] {
                return Err(format!("tile {tile} is read of {:?}", now.holds[place]));
            }
        }
    }
    next.at[warp] += 1;
    Ok(next)
}

/// A warp that has begun what `is` asks for and not ended it.
fn under_way(now: &Moment, programs: &[Vec<Step>], is: impl Fn(Step) -> bool) -> Option<usize> {
    let step = |warp: usize| programs[warp].get(now.at[warp]).copied();
    (0..programs.len()).find(|&warp| step(warp).is_some_and(&is))
}

fn programs(filler: Vec<Step>, worker: Vec<Step>) -> [Vec<Step>; FILLERS + WORKERS] {
    [filler.clone(), filler, worker.clone(), worker]
}

#[test]
fn in_every_order_workers_read_whole_tiles() {
    for stages in 1..=3 {
        for tiles in 1..=7 {
            let programs = programs(filler(stages, tiles), worker(stages, tiles));
            let moments = try_all(stages, programs).expect("no order goes wrong");
            println!("{stages} places, {tiles} tiles: {moments} moments");
        }
    }
}

#[test]
fn a_barrier_less_is_found() {
    let without = |steps: Vec<Step>, is: fn(&Step) -> bool| -> Vec<Step> {
        steps.into_iter().filter(|step| !is(step)).collect()
    };
    let is_barrier = |step: &Step| matches!(step, Step::Meet(_) | Step::Come(_));
    let (stages, tiles) = (3, 5);
    // Workers do not wait until a place is full, fillers do not wait until it is empty.
    let hasty = without(worker(stages, tiles), |step| matches!(step, Step::Meet(_)));
    assert!(try_all(stages, programs(filler(stages, tiles), hasty)).is_err());
    let hasty = without(filler(stages, tiles), |step| matches!(step, Step::Meet(_)));
    assert!(try_all(stages, programs(hasty, worker(stages, tiles))).is_err());
    // Nobody says that a place is empty.
    let silent = without(worker(stages, tiles), |step| matches!(step, Step::Come(_)));
    let error = try_all(stages, programs(filler(stages, tiles), silent)).expect_err("waits");
    assert!(error.contains("for ever"), "{error}");
    // No barriers at all.
    let free = |steps| without(steps, is_barrier);
    let both = programs(free(filler(stages, tiles)), free(worker(stages, tiles)));
    assert!(try_all(stages, both).is_err());
}
