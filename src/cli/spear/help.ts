const servers = `  spear servers ls                     all servers, and what nodes see of them
  spear servers get ID                 one server
  spear servers apply PATH...          create or replace servers, all or none, from files (.toml, .json), directories, or -
  spear servers rm ID...               remove servers
  spear servers test ID                run the server here, list its tools, end it
  spear servers import FILE [--yes]    show what a file with many servers would change; with --yes, change it
  spear servers export [DIR]           all servers as JSON on stdout, or one .toml file each in DIR`;

const nodes = `  spear nodes ls                       the nodes that reported lately`;

const serverExamples = `  spear servers apply mcp.d/
  spear servers ls --json | jq -r '.servers[].server_id'
  spear servers test fs --allow-env GITLAB_TOKEN
  spear servers import servers.json --yes`;

const registry = `Which registry:
  --sms ADDRESS        HOST:PORT or url of its HTTP side, or unix:PATH of its socket (default: $SPEAR_SMS, else the
                       socket of this user's registry on this machine). A bare HOST:PORT is called by TLS, on
                       loopback in clear, with a warning: nothing proves who listens there
  --token-file FILE    the admin's token (default: $SPEAR_SMS_TOKEN, $SPEAR_SMS_TOKEN_FILE, else the file of this
                       user's own registry, which is sent through its socket or by TLS on this machine only)
  --token TOKEN        the same, visible to other users of this machine
  --ca FILE            certificates to trust instead of the system's
  --timeout-ms MS      for one request (default: 30000)

Output:
  --json               one JSON value on stdout instead of a table`;

const serverOptions = `  --dry-run            import: only show the plan, whatever else is given
  -y, --yes            import: go on after the plan
  --reveal             export: write literal env and header values instead of ********; files are made for their owner
  --allow-env NAME     test: a variable of yours that the record may refer to, beside MCP_*; may be repeated`;

const exitCode = `Exit code:
  0 done; 1 no such server, an invalid record, a failed test, or refused by the registry; 2 bad usage;
  3 the registry cannot be reached; 4 denied: no token, or not the admin's.
`;

export const spearHelp = `spear looks after the MCP servers of a registry (spear-sms).

Usage:
${servers}
${nodes}
  spear doctor task.wasm               why a task has no tools, and what to do; spear doctor --help
  spear explain SERVER TOOL            why a task can or cannot call a tool; spear explain --help
  spear audit verify FILE              whether an audit trail is whole; exit code 1 and the first bad line if not
  spear audit tail FILE [-f]           its last lines, with filters; spear audit --help has them
  spear componentize MODULE -o FILE    make a component of a core module that imports the functions of spear.wit
  spear help [COMMAND]                 this text, or that of a command
  spear version                        the version

Examples:
${serverExamples}

${registry}

More options:
${serverOptions}
  -h, --help           this text
  -V, --version        the version

${exitCode}`;

export const serversHelp = `spear servers looks after the MCP servers of a registry (spear-sms).

Usage:
${servers}

Examples:
${serverExamples}

${registry}

More options:
${serverOptions}
  -h, --help           this text

${exitCode}`;

export const nodesHelp = `spear nodes shows the nodes that follow a registry (spear-sms).

Usage:
${nodes}

${registry}
  -h, --help           this text

${exitCode}`;
