#!/bin/sh
# Take the six pictures of docs/walk.md: sh docs/site/walk.sh (needs chromium, and tcc or gcc).
set -eu
site=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
cd "$work"
query=isa.binary.idiv.int16.special

# picture NAME WIDTH HEIGHT ADDRESS
picture() {
    chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --force-color-profile=srgb \
        --window-size="$2,$3" --screenshot="$site/$1.png" "$4" 2>/dev/null
}

# terminal NAME HEIGHT COMMAND: a picture of a command and of what it prints.
terminal() {
    {
        echo '<meta charset="utf-8"><body style="margin:0;background:#16181d;color:#e6e6e6">'
        echo '<pre style="margin:16px;font:14px/1.45 monospace;white-space:pre-wrap">'
        echo "<b style=\"color:#8fd19e\">$</b> <b>$3</b>"
        sh -c "$3" 2>/dev/null | sed 's/&/\&amp;/g; s/</\&lt;/g' || true
    } > page.html
    picture "$1" 900 "$2" "file://$work/page.html"
}

conform="tinyref conform --device mine.backend:MineBackend --query $query"
terminal walk-1 440 "tinyref new-backend MINE --language c --out mine"
cd mine
work=$PWD
terminal walk-2 150 "$conform"
sed -i 's/dtypes.int16: "int16_t"/dtypes.int16: "uint16_t"/' mine/renderer.py
terminal walk-3 150 "grep -n 'dtypes.int16: ' mine/renderer.py"
terminal walk-4 360 "$conform"
picture walk-5 1100 900 "file://$work/conformance-mine-backend-MineBackend/query/report.html"
sed -i 's/dtypes.int16: "uint16_t"/dtypes.int16: "int16_t"/' mine/renderer.py
terminal walk-6 150 "$conform"
