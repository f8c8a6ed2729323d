#!/usr/bin/env bash
# What `make gpu-bundle` calls `run`: tests, checks and times on a GPU machine, from the folder it lies in.
#
#   ./run [STEP...]   steps: doctor test check bench (all four when none is named); micro: cycles of steps and updates; sanitize: small checks
#                     of every family under compute-sanitizer
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

# A copy of the templates in $1 where every barrier of a block, of some of its warps and of a cluster is passed twice. It orders nothing that one does
# not. racecheck wants it: where warps have passed named barriers a different number of times, it takes what some wrote before the block's next
# barrier and others read after it for a hazard, and a second barrier mends that. Nor does it see what bar.arrive orders, so that there those that arrive wait
# like the others, or what __syncwarp orders ahead of one lane's arrival at an mbarrier, so that there all lanes arrive.
twice() {
    rm -rf "$1" && cp -r templates "$1"
    sed -i -e 's/"bar\.sync \(0\|%0, %1\);"/"bar.sync \1;\\n bar.sync \1;"/' -e 's/selp\.b32 %0, 1, 0, q;}/selp.b32 %0, 1, 0, q;\\n bar.sync 0;}/' \
        -e 's/"\(bar\.arrive\|barrier\.cta\.sync\.aligned\) %0, %1;"/"bar.sync %0, %1;\\n bar.sync %0, %1;"/' "$1/device/block.cuh"
    sed -i 's/^#define WIDE_GIVERS 1$/#define WIDE_GIVERS 32/' "$1/blocks/fused_wide.cuh"
    sed -i 's/const bool later = w == 0 && long_rest;/const bool later = true;/' "$1/blocks/fused_t.cuh" # or warps that wait now would wait for each other
    sed -i '/^#elif QRS_ARCH_90/,$ s/^    cluster_arrive();$/    cluster_arrive();\n    cluster_wait();\n    cluster_arrive();/' "$1/device/cluster.cuh"
}

# TOOL LOG CHECK-ARGUMENTS: prints the tool's count; what it and the check said is in LOG
sanitized() {
    local tool=$1 log=$2 count options
    shift 2
    case $tool in # the tools count too few mbarriers where one instruction sets up several
    racecheck) options="--num-cuda-barriers 4096 --racecheck-report analysis" ;;
    synccheck) options="--num-cuda-barriers 4096" ;;
    *) options= ;;
    esac
    timeout "${SECONDS_PER_SANITIZE:-120}" compute-sanitizer --tool "$tool" $options ./qrsmith check "$@" --device 0 >"$log" 2>&1
    count=$(grep -oE '(ERROR SUMMARY: [0-9]+ error|RACECHECK SUMMARY: [0-9]+ hazard)' "$log" | grep -oE '[0-9]+')
    grep -q ', 0 failed' "$log" && echo "${count:-no result}" || echo "failed, ${count:-no result}"
}

sanitize() {
    local bad=0 tool count case number=0
    command -v compute-sanitizer >/dev/null || { echo "compute-sanitizer is not there: it comes with the CUDA toolkit"; return 1; }
    twice "$out/twice"
    while read -r case; do
        number=$((number + 1))
        for tool in memcheck racecheck initcheck synccheck; do
            if [ $tool = racecheck ]; then
                QRSMITH_TEMPLATES=$out/twice QRSMITH_CACHE_DIR=$out/twice.cache sanitized $tool "$out/$tool.$number.txt" $case >"$out/count.$tool" &
            else
                sanitized $tool "$out/$tool.$number.txt" $case >"$out/count.$tool" &
            fi
        done </dev/null
        wait
        for tool in memcheck racecheck initcheck synccheck; do
            count=$(cat "$out/count.$tool" && rm "$out/count.$tool")
            printf '%-10s %-88s %s\n' $tool "$case" "$count"
            [ "$count" = 0 ] || { bad=1; echo "           see $out/$tool.$number.txt"; }
        done
    done <<'CASES'
--shape 7x3x3 --shape 5x16x16 --shape 4x32x32 --shape 4x64x64
--shape 2x130x130 --family blocked
--shape 3x176x176
--shape 2x100x100:fp16 --family fused --set update=wgmma
--shape 2x200x130:fp16 --shape 2x192x192:fp16 --family fused --set update=wgmma
configs/suites/rare.json --family fused --set update=wgmma
configs/suites/rare.json --family fused --set update=mma --set ctas=1 --set overlap=0
configs/suites/rare.json --family fused --set update=mma --set ctas=2 --set keep=shared
configs/suites/rare.json --family fused --set update=mma --set ctas=2 --set keep=scratch --set overlap=0
CASES
    return $bad
}

for step in $steps; do
    case $step in doctor | test | check | bench | micro | sanitize) ;; *) echo "unknown step $step (doctor test check bench micro sanitize)" >&2 && exit 2 ;; esac
done
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
    sanitize)
        mkdir -p "$out/twice.cache" && chmod 700 "$out/twice.cache"
        sanitize 2>&1 | tee "$out/sanitize.txt"
        note sanitize "${PIPESTATUS[0]}" "$out/sanitize.txt"
        ;;
    esac
done
printf '\n%-10s %-6s %s\n' step state result
printf '%s\n' "${rows[@]}"
exit $failed
