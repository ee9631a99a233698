export const runHelp = `spear-run runs an agent compiled to WebAssembly.

Usage:
  spear-run task.wasm [options] [-- guest args]
  spear-run --resume FILE [options]

A guest talks to a chat model and to tools through hostcalls; this command is the host.
Without any configuration its model is a built-in stub that says so.

Examples:
  spear-run hello.wasm
  spear-run agent.wasm --task-config task.json -- --report weekly
  OPENAI_API_KEY=… OPENAI_MODEL=… spear-run chat.wasm -- "What is new?"
  spear-run agent.wasm --script turns.json          replay a scripted model, offline
  spear-run agent.wasm --task-config task.json --mcp-dir mcp.d --audit audit.jsonl
  spear-run agent.wasm --limit timeout_ms=5000      end the guest after five seconds

The task:
  --task-config FILE       the task, JSON or TOML: name, config, limits, args, env, backend; its module too, if none is
                           named here
  --limit NAME=VALUE       overrides one limit of the task; may be repeated
  --env NAME=VALUE         a variable for the guest (it sees none of the host's); may be repeated
  --isolation HOW          thread: the guest gets a thread of its own (the default). shared: it runs as on a node that
                           seats many guests on a thread, and gives way at its loops; a module that cannot be
                           shared gets a thread of its own, and you are told why
  --allow-unknown-imports  link imports that this host does not have; calling one gives ENOSYS
                           (core modules; what a component imports must be there)
  --no-cache               compile a component anew, and do not keep the result

The model:
  --config FILE            TOML with named backends
                           (default: $SPEAR_CONFIG, else ~/.config/spear/config.toml if it exists)
  --backend NAME           the backend for sessions that name none
  --script FILE            a scripted model instead of any other backend
  --trace FILE             append every request to the model and every answer to FILE, one JSON object a line:
                           all that was said, but for known secrets (made for its owner alone; at most 256 MiB a run)
  --follow                 show on stderr what the model says, while it says it, and which tools it calls
  Without a config file, OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL are enough.

MCP tools (the task's config turns them on: "mcp.enabled", "mcp.default_server_ids", …):
  --mcp-dir DIR            records of MCP servers, one *.toml or *.json file each
  --strict                 refuse to run if one of those files is wrong
  --sms ADDRESS            follow the registry of an SMS instead: HOST:PORT, https://…, or unix:PATH of its socket;
                           several of one registry are separated by commas, and the next is asked when one fails.
                           The SMS of this user on this machine is always called through its socket; another one
                           on loopback needs a token, and you are warned: nothing proves who listens at a port
  --sms-token-file FILE    the node's token, read again when it changes (default: $SPEAR_SMS_TOKEN,
                           $SPEAR_SMS_TOKEN_FILE, else the file of this user's SMS)
  --sms-token TOKEN        the same, visible to other users of this machine
  --sms-ca FILE            certificates to trust, as PEM
  --require-registry       do not run without tools: exit 125 where no registry answers within
                           mcp.first_snapshot_ms and earlier runs left no records that may still be used
                           (default: go on without MCP, say so, and use it as soon as the registry answers)
  --approve prompt|sms|deny
                           who decides about tools that need an approval ("approval_policy" of their
                           record), and answers what servers ask ("client_features"): you, asked
                           on the terminal; the people of the registry (--sms), who answer no
                           questions of servers; or nobody, so that they are denied
                           (default: prompt if there is a terminal, else deny)

User streams (a program at the other end of the guest's user_stream_* calls):
  --stream WHERE           stdio: frames come in on stdin and go out on stdout; the guest's own output
                           goes to stderr, and it has no input. unix:PATH: a socket of this user alone.
                           ws://127.0.0.1:PORT: WebSockets (0: a free port); the address to connect to, with
                           its token, is printed. One client at a time

Metrics:
  --metrics ADDR           serve them for Prometheus at http://ADDR/metrics while the guest runs;
                           HOST:PORT, or :PORT for this machine only (:0: any free port)

The audit trail (spear audit verify checks it, spear audit tail shows it):
  --audit FILE             append what happened to FILE: one JSON object a line, chained by hashes;
                           - is standard output, and the guest's own goes to stderr then
  --audit-args FORM        what it keeps of a call's arguments: redacted (the default: neither values
                           of sensitive names nor what looks like a credential), sha256, shape, none
  --audit-max-bytes N      a larger FILE is moved aside to FILE.1, FILE.2, … (default: 67108864; 0: never)
  --audit-keep N           how many of those are kept (default: 10)
  [audit] in the config file sets the same for every run: file, args, max_bytes, keep

The journal (spear replay FILE lives through the run again, offline):
  --journal FILE           record what the run does and is told in FILE, which must not be there yet (0600)
  --journal-sync HOW       before a tool or a model is called, what precedes it is written, and survives the end
                           of this process (write, the default) or of the machine (disk)
  --journal-key REFERENCE  file:PATH or env:NAME of the key that it is encrypted with; of --resume, opened with
                           (default: [journal] key of the config file, if there is one)
  --resume FILE            go on with the run of that journal: what was computed is computed again, what was done
                           is not. Module, arguments, environment and limits are those it began with; every
                           other option is as it was, unless it is given again

Many inputs:
  --each FILE              run one guest for each line of FILE, which is its input; nobody is asked about tool calls
  --results FILE           where the results go, a line of JSON each: index, sha256 of the input, exit, output
  --parallel N             so many at once (default: 8); with --isolation shared they share threads
  --skip-done              go on with the results that are there: inputs that ended with 0 are left alone

Output:
  --json                   one result object on stdout at the end; all guest output goes to stderr
  -v, --verbose            also what the guest logs at debug and trace, and its hostcall counts
  --dry-run                check everything, run nothing

  -h, --help               this text
  -V, --version            the version

Exit code:
  the guest's own; 123 a resumed run diverged from its journal; 124 deadline; 125 bad usage, config or module;
  130 Ctrl-C (twice: at once); 134 trap, with the stack of the guest; 129 SIGHUP; 143 SIGTERM.
`;
