#!/usr/bin/env bash
# What `make gpu-bundle` calls `run`: tests, checks and times on a GPU machine, from the folder it lies in.
#
#   ./run [STEP...]   steps: doctor test check bench (all four when none is named), and micro: cycles of steps and updates
#   SUITE=FILE        another suite for check and bench     SECONDS_PER_CASE=S   limit of a bench case
#   OUT=DIR           where logs and JSON go (default: results/ here)
set -u
cd "$(dirname "$0")"
out=${OUT:-$PWD/results}
suite=${SUITE:-configs/suites/contest.json}
mkdir -p "$out"
export QRSMITH_CACHE_DIR=${QRSMITH_CACHE_DIR:-$PWD/cache}
export LD_LIBRARY_PATH=$PWD${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
mkdir -p "$QRSMITH_CACHE_DIR" && chmod 700 "$QRSMITH_CACHE_DIR"
steps=${*:-doctor test check bench}
rows=()
failed=0

note() { # NAME CODE TEXT
    rows+=("$(printf '%-10s %-6s %s' "$1" "$([ "$2" = 0 ] && echo ok || echo "rc $2")" "$3")")
    [ "$2" = 0 ] || failed=1
}

for step in $steps; do
    echo "== $step"
    case $step in
    doctor)
        ./qrsmith doctor 2>&1 | tee "$out/doctor.txt"
        note doctor "${PIPESTATUS[0]}" "$out/doctor.txt"
        ;;
    test)
        programs=$(find . -maxdepth 1 -name 'test_*' -type f -perm -u+x | sort)
        QRSMITH_BUILD=$out QRSMITH_BIN=$PWD/qrsmith QRSMITH_TEST_CACHE=$QRSMITH_CACHE_DIR \
            ./run-tests -j 1 -t 600 $programs 2>&1 | tee "$out/test.txt"
        note test "${PIPESTATUS[0]}" "$(tail -n 1 "$out/test.txt")"
        ;;
    micro)
        QRSMITH_TEST_CACHE=$QRSMITH_CACHE_DIR ./test_micro 2>&1 | tee "$out/micro.txt"
        note micro "${PIPESTATUS[0]}" "$out/micro.txt"
        ;;
    check)
        ./qrsmith check "$suite" --device 0 2>&1 | tee "$out/check.txt"
        note check "${PIPESTATUS[0]}" "$(tail -n 1 "$out/check.txt")"
        ;;
    bench)
        ./qrsmith bench "$suite" --device 0 --max-seconds "${SECONDS_PER_CASE:-2}" --json "$out/bench.json" 2>&1 | tee "$out/bench.txt"
        note bench "${PIPESTATUS[0]}" "$(tail -n 1 "$out/bench.txt")"
        ;;
    *) echo "unknown step $step (doctor test check bench micro)" >&2 && exit 2 ;;
    esac
done
printf '\n%-10s %-6s %s\n' step state result
printf '%s\n' "${rows[@]}"
exit $failed
