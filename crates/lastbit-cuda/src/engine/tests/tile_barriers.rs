//! The barriers of `tiles.cu`, in every order in which warps can run.
//!
//! Producers and consumers of a block share the stages of tiles, and two barriers for each stage keep them
//! apart. Here both are short programs of reads, writes and barriers, as in `conv3x3.cu` and
//! `weights3x3.cu`, and every interleaving of their steps is tried: a consumer must find its whole tile, no
//! warp may write where another reads, and all must terminate. A barrier only counts arrivals, as on the
//! device: a warp that arrived twice would open it too early.

use std::collections::HashSet;

/// A warp's next step. Reads and writes have a begin and an end, so that they can overlap.
#[derive(Clone, Copy)]
enum Step {
    /// Arrives at a barrier and waits there.
    Sync(usize),
    /// Arrives at a barrier without waiting.
    Arrive(usize),
    Begin,
    EndWrite {
        stage: usize,
        tile: usize,
    },
    EndRead {
        stage: usize,
        tile: usize,
    },
}

const PRODUCERS: usize = 2;
const WARPS: usize = 4;

/// The barrier at which consumers wait until a stage is full; that of an empty stage is `stages` further.
fn full(stage: usize) -> usize {
    stage
}

fn producer(stages: usize, tiles: usize) -> Vec<Step> {
    let steps = |tile: usize| {
        let stage = tile % stages;
        let wait = (tile >= stages).then_some(Step::Sync(stages + stage));
        let write = [Step::Begin, Step::EndWrite { stage, tile }, Step::Arrive(full(stage))];
        wait.into_iter().chain(write)
    };
    (0..tiles).flat_map(steps).collect()
}

fn consumer(stages: usize, tiles: usize) -> Vec<Step> {
    let steps = |tile: usize| {
        let stage = tile % stages;
        let read = [Step::Sync(full(stage)), Step::Begin, Step::EndRead { stage, tile }];
        read.into_iter().chain((tile + stages < tiles).then_some(Step::Arrive(stages + stage)))
    };
    (0..tiles).flat_map(steps).collect()
}

/// The state of a block of warps, producers first.
#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    /// The step of each warp.
    at: [usize; WARPS],
    /// The barrier at which each warp waits.
    waits: [Option<usize>; WARPS],
    /// Arrivals at each barrier.
    arrived: Vec<usize>,
    /// The tile that each producer last wrote into each stage.
    holds: Vec<[Option<usize>; PRODUCERS]>,
}

/// Tries all interleavings; returns the number of states, or what went wrong in the first that fails.
fn try_all(stages: usize, producer: Vec<Step>, consumer: Vec<Step>) -> Result<usize, String> {
    let programs = [producer.clone(), producer, consumer.clone(), consumer];
    let first = State {
        at: [0; WARPS],
        waits: [None; WARPS],
        arrived: vec![0; 2 * stages],
        holds: vec![[None; PRODUCERS]; stages],
    };
    let mut seen = HashSet::from([first.clone()]);
    let mut open = vec![first];
    while let Some(now) = open.pop() {
        let unfinished: Vec<usize> =
            (0..WARPS).filter(|&warp| now.at[warp] < programs[warp].len()).collect();
        if !unfinished.is_empty() && unfinished.iter().all(|&warp| now.waits[warp].is_some()) {
            return Err(format!("deadlock at steps {:?}", now.at));
        }
        for warp in unfinished.into_iter().filter(|&warp| now.waits[warp].is_none()) {
            let next = advance(&now, warp, &programs)?;
            if seen.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    Ok(seen.len())
}

fn advance(now: &State, warp: usize, programs: &[Vec<Step>; WARPS]) -> Result<State, String> {
    let mut next = now.clone();
    // The steps that warps have begun and not ended.
    let under_way = |of: &dyn Fn(Step) -> bool| {
        (0..WARPS).find(|&warp| programs[warp].get(now.at[warp]).is_some_and(|step| of(*step)))
    };
    let step = programs[warp][now.at[warp]];
    match step {
        Step::Sync(barrier) | Step::Arrive(barrier) => {
            next.arrived[barrier] += 1;
            if matches!(step, Step::Sync(_)) {
                next.waits[warp] = Some(barrier);
            } else {
                next.at[warp] += 1;
            }
            if next.arrived[barrier] == WARPS {
                next.arrived[barrier] = 0;
                for other in 0..WARPS {
                    if next.waits[other] == Some(barrier) {
                        next.waits[other] = None;
                        next.at[other] += 1;
                    }
                }
            }
            return Ok(next);
        }
        Step::Begin => {}
        Step::EndWrite { stage: own, tile } => {
            let reads = |step| matches!(step, Step::EndRead { stage, .. } if stage == own);
            if let Some(reader) = under_way(&reads) {
                return Err(format!("tile {tile} is written where warp {reader} reads"));
            }
            next.holds[own][warp] = Some(tile);
        }
        Step::EndRead { stage: own, tile } => {
            let writes = |step| matches!(step, Step::EndWrite { stage, .. } if stage == own);
            if let Some(writer) = under_way(&writes) {
                return Err(format!("tile {tile} is read where warp {writer} writes"));
            }
            if now.holds[own] != [Some(tile); PRODUCERS] {
                return Err(format!("tile {tile} is read, the stage holds {:?}", now.holds[own]));
            }
        }
    }
    next.at[warp] += 1;
    Ok(next)
}

#[test]
fn in_every_order_consumers_read_whole_tiles() {
    for stages in 1..=3 {
        for tiles in 1..=7 {
            let states = try_all(stages, producer(stages, tiles), consumer(stages, tiles));
            println!("{stages} stages, {tiles} tiles: {} states", states.expect("no order fails"));
        }
    }
}

#[test]
fn a_missing_barrier_is_found() {
    let without = |steps: Vec<Step>, is: fn(&Step) -> bool| -> Vec<Step> {
        steps.into_iter().filter(|step| !is(step)).collect()
    };
    let (stages, tiles) = (3, 5);
    let [producer, consumer] = [producer, consumer].map(|program| program(stages, tiles));
    let is_sync = |step: &Step| matches!(step, Step::Sync(_));
    let is_arrive = |step: &Step| matches!(step, Step::Arrive(_));
    let is_barrier = |step: &Step| matches!(step, Step::Sync(_) | Step::Arrive(_));
    // Consumers do not wait until a stage is full, producers do not wait until it is empty.
    assert!(try_all(stages, producer.clone(), without(consumer.clone(), is_sync)).is_err());
    assert!(try_all(stages, without(producer.clone(), is_sync), consumer.clone()).is_err());
    // No warp reports that a stage is empty.
    let error = try_all(stages, producer.clone(), without(consumer.clone(), is_arrive));
    let error = error.expect_err("a deadlock");
    assert!(error.contains("deadlock"), "{error}");
    let [producer, consumer] = [producer, consumer].map(|steps| without(steps, is_barrier));
    assert!(try_all(stages, producer, consumer).is_err());
}
