#!/bin/sh
# write-0.2.0.sh CHECKOUT OUT: lets version 0.2.0 write a registry, its backup and audit files.
# CHECKOUT: a work tree of commit 99bff1f after "npm install". OUT: an empty folder; both are absolute paths.
set -eu
checkout=$1; out=$2
node=$checkout/node_modules/.bin/node
export HOME=$out SPEAR_SMS_TOKEN=
mkdir -p "$out/mcp.d" "$out/more"
cat > "$out/mcp.d/sums.json" <<'JSON'
{ "server_id": "sums", "display_name": "Sums", "transport": "stdio", "stdio": { "command": "sums", "args": ["--verbose"],
  "env": { "TOKEN": "${ENV:MCP_TOKEN}" } }, "allowed_tools": ["*"], "approval_policy": { "default": "never" } }
JSON
cat > "$out/more/tracker.toml" <<'TOML'
server_id = "tracker"
transport = "streamable_http"
tool_prefix = "issues"
allowed_tools = ["list_*", "get_*"]
[http]
url = "https://tracker.example/mcp"
headers = { Authorization = "${ENV:MCP_TRACKER}" }
[budgets]
max_concurrency = 2
[approval_policy]
default = "always"
TOML
printf 'server_id = "gone"\ntransport = "stdio"\nallowed_tools = ["*"]\n[stdio]\ncommand = "gone"\n' > "$out/more/gone.toml"
"$node" "$checkout/bin/spear-sms.cjs" --grpc 127.0.0.1:0 --http 127.0.0.1:0 --data "$out/registry.db" \
  --mcp-registry-dir "$out/mcp.d" > "$out/sms.json" &
sms=$!
until [ -s "$out/sms.json" ]; do sleep 0.1; done
http=$(sed 's/.*"http":"\([^"]*\)".*/\1/' "$out/sms.json")
spear() { "$node" "$checkout/bin/spear.cjs" "$@" --sms "$http" --token-file "$out/admin.token"; }
spear servers apply "$out/more"
spear servers rm gone
SMS_DATA=$out/registry.db "$node" "$checkout/bin/spear-sms.cjs" backup "$out/backup.db"
kill -TERM $sms; wait $sms
# Runs of an agent that calls a tool, one call denied; the small bound moves files aside.
mkdir -p "$out/bin"
server=$checkout/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js
printf '#!/bin/sh\nexec "%s" "%s" "%s"\n' "$node" "$server" "$checkout/fixtures/demo/notes" > "$out/bin/notes"
chmod +x "$out/bin/notes"
mkdir "$out/runs.d"
echo '{ "server_id": "notes", "transport": "stdio", "stdio": { "command": "notes" }, "allowed_tools": ["*"] }' > "$out/runs.d/notes.json"
for n in 1 2 3; do
  (cd "$checkout/fixtures/demo" && PATH=$out/bin:$PATH "$node" "$checkout/bin/spear-run.cjs" "$checkout/fixtures/c/files.wasm" \
    --task-config task.json --script model.json --mcp-dir "$out/runs.d" --audit "$out/audit.jsonl" --audit-max-bytes 6000)
done
mkdir "$out/0.2.0"
mv "$out"/*.db "$out"/*.token "$out"/audit.jsonl* "$out/0.2.0/"
