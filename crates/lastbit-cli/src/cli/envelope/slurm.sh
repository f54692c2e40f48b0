#!/bin/bash
#
# lastbit envelope: @runs@ runs of a program as the tasks of a Slurm job array.
#
#   bash FILE      submit the array, and after it a job that writes the envelope
#   sbatch FILE    submit the array alone
#
# Options of sbatch are given to both: bash FILE --partition=long --gres=gpu:1
# Change what follows to fit the cluster. Submitting again makes the runs that are not whole, and no others.
#
#SBATCH --job-name=lastbit-envelope
#SBATCH --array=0-@last@
#SBATCH --cpus-per-task=8
#SBATCH --mem=16G
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append

# These places must be the same on every node.
lastbit=@program@
out=@out@
cd @here@ || exit
run=(envelope --out "$out" @options@)
command=(@command@)

if [ -z "${SLURM_ARRAY_TASK_ID:-}" ]; then
    set -e
    array=$(sbatch --parsable "$@" "$0")
    last=$(sbatch --parsable "$@" --array=0 --cpus-per-task=1 --dependency="afterany:${array%%;*}" \
        "$0" gather)
    echo "Submitted array ${array%%;*}; ${last%%;*} writes the envelope."
    exit
fi

part="$SLURM_ARRAY_TASK_ID..$((SLURM_ARRAY_TASK_ID + 1))/@runs@"
if [ "${1:-}" = gather ]; then
    part="0..0/@runs@"
fi
exec "$lastbit" "${run[@]}" --cells "$part" -- "${command[@]}"
