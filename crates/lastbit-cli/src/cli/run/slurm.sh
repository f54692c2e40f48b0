#!/bin/bash
#
# @command@: @cells@ cells in @tasks@ tasks of a Slurm job array.
#
#   bash FILE      submit the array, and after it a job that puts the record together and reports
#   sbatch FILE    submit the array alone
#
# Options of sbatch are given to both: bash FILE --partition=long --time=2-00:00:00
# Change what follows to fit the cluster. A task that is killed, preempted or requeued goes on where
# it was; submitting again computes what is missing and nothing else.
#
#SBATCH --job-name=@name@
#SBATCH --array=0-@last@
#SBATCH --cpus-per-task=@threads@
#SBATCH --mem=8G
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@120

# The program, the data sets and the folder of records must be in these places on every node.
lastbit=@program@
out=@out@
@data@run=(@ids@ --scale @scale@)

if [ -z "${SLURM_ARRAY_TASK_ID:-}" ]; then
    set -e
    array=$(sbatch --parsable "$@" "$0")
    last=$(sbatch --parsable "$@" --array=0 --cpus-per-task=1 --dependency="afterany:${array%%;*}" \
        "$0" assemble)
    echo "Submitted array ${array%%;*}; ${last%%;*} puts the record together and writes the report."
    exit
fi

if [ "${1:-}" = assemble ]; then
    "$lastbit" run "${run[@]}" --out "$out" --cells 0..0/@tasks@
    code=$?
    "$lastbit" report --out "$out"
    exit "$code"
fi

# Two minutes before its time is over a task goes to the queue again. It has saved its work up to the
# last checkpoint; thirty times are enough for a month of days, and end a task that gets nowhere.
again() {
    if [ "${SLURM_RESTART_COUNT:-0}" -lt 30 ]; then
        scontrol requeue "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"
    fi
}
trap again USR1

part="$SLURM_ARRAY_TASK_ID..$((SLURM_ARRAY_TASK_ID + 1))/@tasks@"
"$lastbit" run "${run[@]}" --out "$out" --cells "$part" --threads "${SLURM_CPUS_PER_TASK:-1}" &
task=$!
wait "$task"
code=$?
# A signal ends the waiting, and not the task.
while kill -0 "$task" 2>/dev/null; do
    wait "$task"
    code=$?
done
exit "$code"
