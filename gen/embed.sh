# Reads file names, one a line, from standard input and writes the C file that defines qg_embedded_files
# (gen/embedded.h). The files' bytes are brought in by the assembler (.incbin), so size costs no compile time.
set -eu
export LC_ALL=C

printf '/* Written by gen/embed.sh. */\n#include "gen/embedded.h"\n\n'
printf '#define EMBED(symbol, file) \\\n'
printf '    __asm__(".section .rodata\\n.balign 16\\n" #symbol ":\\n.incbin \\"" file "\\"\\n.byte 0\\n.previous\\n"); \\\n'
printf '    extern const char symbol[] __attribute__((visibility("hidden")))\n\n'

# "path-as-seen file size", sorted by the path that readers see.
entries=$(while read -r file; do
    [ -n "$file" ] || continue
    printf '%s %s %s\n' "${file#templates/}" "$file" "$(wc -c < "$file" | tr -d ' ')"
done | sort)

i=0
printf '%s\n' "$entries" | while read -r path file size; do
    [ -n "$path" ] || continue
    printf 'EMBED(qg_embedded_%d, "%s");\n' "$i" "$file"
    i=$((i + 1))
done
printf '\nconst qg_embedded qg_embedded_files[] = {\n'
printf '%s\n' "$entries" | while read -r path file size; do
    [ -n "$path" ] || continue
    printf '    {"%s", qg_embedded_%d, %s},\n' "$path" "$i" "$size"
    i=$((i + 1))
done
printf '    {0, 0, 0},\n};\n'
