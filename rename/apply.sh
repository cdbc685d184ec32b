#!/bin/bash
# Renames the tree's private words. usage: apply.sh CHECKOUT (a clean work tree). Renames that find nothing are reported and skipped.
set -e
HERE=$(dirname "$(readlink -f "$0")")
cd "$1"
python3 "$HERE/rename.py" . "$HERE/mapping.txt"
while read -r from to; do
    if [ -e "$from" ]; then mkdir -p "$(dirname "$to")"; git mv "$from" "$to"; fi
done < "$HERE/moves.txt"
# snapshots: their names have module and function
for f in $(git ls-files '*.snap'); do
    n=$(echo "$f" | sed -e 's/__check__tests__whole__/__check__tests__rule_files__/; s/__law__tallies__/__law__partial_sums__/; s/what_a_page_says_is_whole/a_page_is_complete/')
    if [ "$n" != "$f" ]; then git mv "$f" "$n"; fi
done
python3 "$HERE/texts.py"
python3 "$HERE/docs.py"
cp -r "$HERE/new/." .
git add -A
cargo fmt --all
git add -A
