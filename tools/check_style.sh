#!/usr/bin/env bash
# Formatting and length of the C++ sources: what clang-format-16 would change is an error; so are more
# than 600 lines in a source that is no test; more than 400 is a warning.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly warn_lines=400 fail_lines=600
failed=0

# Tracked files and new ones, never what git ignores. A deleted file is still listed until it is staged.
sources=()
while IFS= read -r -d '' file; do
  case $file in
    *.cc | *.h | *.c) [[ -f $file ]] && sources+=("$file") ;;
  esac
done < <(git ls-files -z --cached --others --exclude-standard -- src tests benchmarks | sort -zu)

if ((${#sources[@]} == 0)); then
  echo "check_style: there are no sources below src, tests and benchmarks" >&2
  exit 1
fi

clang-format-16 --dry-run -Werror "${sources[@]}" || failed=1

for file in "${sources[@]}"; do
  case $file in *_test.cc | tests/*) continue ;; esac
  lines=$(wc -l <"$file")
  if ((lines > fail_lines)); then
    echo "$file:1: error: $lines lines, more than $fail_lines: divide it"
    failed=1
  elif ((lines > warn_lines)); then
    echo "$file:1: warning: $lines lines, more than $warn_lines"
  fi
done

exit "$failed"
