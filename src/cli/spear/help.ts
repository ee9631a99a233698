const servers = `  spear servers ls                     all servers, and what nodes see of them
  spear servers get ID                 one server
  spear servers apply PATH...          create or replace servers, all or none, from files (.toml, .json), directories, or -
  spear servers rm ID...               remove servers
  spear servers test ID                run the server here, list its tools, end it
  spear servers pin ID [TOOL...]       run the server here, show what its tools are beside what was pinned; with --yes, pin it
  spear servers unpin ID [TOOL...]     let the server change these tools again
  spear servers login ID               log in to a server with OAuth, by the browser, for runs of yours on this machine
  spear servers logout ID              forget that login
  spear servers import FILE [--yes]    show what a file with many servers would change; with --yes, change it
  spear servers export [DIR]           all servers as JSON on stdout, or one .toml file each in DIR`;

const profiles = `  spear profiles ls                    all profiles: selections of servers and tools that tasks name
  spear profiles get NAME              one profile
  spear profiles apply PATH...         create or replace profiles from files (.toml, .json), directories, or -
  spear profiles rm NAME...            remove profiles`;

const approvals = `  spear approvals ls                   calls that wait for somebody's yes
  spear approvals show ID              one of them: what would be sent, and what the server says of the tool
  spear approvals allow ID             let the call through, once
  spear approvals deny ID              do not
  spear approvals watch                tell of every request and decision, until Ctrl-C`;

const approvalOptions = `  --status STATUS      ls: of waiting, granted, denied, used, expired, withdrawn, or all (default: waiting)
  --full               show: long values whole, and what looks like a credential in clear; the trail says that you looked
  --session            allow: this tool for the rest of its session, whatever the arguments
  --reason TEXT        allow, deny: why; of a denial the model is told`;

const tokens = `  spear tokens ls                      all tokens: their roles, namespaces, last use
  spear tokens create NAME --role ROLE make a token; its text goes to stdout, this once
  spear tokens rotate NAME             give it a new text; the old one is valid for a while yet
  spear tokens revoke NAME             take it away, at once`;

const nodes = `  spear nodes ls                       the nodes that reported lately`;

const tokenOptions = `  --role ROLE          create: viewer, submitter, approver, operator, admin or node; may be repeated
  --namespace NAME     create: the only one that it may name, or * for all (default: that of who makes it)
  --journals           create: it may read what runs said and were told
  --expires TIME       create: ends by itself after 90d, 12h, 30m (default: never)
  --description TEXT   create: for people
  -o, --out FILE       create, rotate: put the text into a file for its owner alone, instead of stdout
  --overlap TIME       rotate: how long the old text is valid beside the new one (default: 24h; 0s: not at all)`;

const serverExamples = `  spear servers apply mcp.d/
  spear servers ls --json | jq -r '.servers[].server_id'
  spear servers test fs --allow-env GITLAB_TOKEN
  spear servers login tracker --mcp-dir mcp.d
  spear servers import servers.json --yes`;

const registry = `Which registry:
  --sms ADDRESS        HOST:PORT or url of its HTTP side, or unix:PATH of its socket; several are
                       separated by commas, and the next is asked when one fails (default: $SPEAR_SMS, else the
                       socket of this user's registry on this machine). A bare HOST:PORT is called by TLS, on
                       loopback in clear, with a warning: nothing proves who listens there
  --token-file FILE    a token that may (default: $SPEAR_SMS_TOKEN, $SPEAR_SMS_TOKEN_FILE, else the file of this
                       user's own registry, which is sent through its socket or by TLS on this machine only)
  --token TOKEN        the same, visible to other users of this machine
  --ca FILE            certificates to trust instead of the system's
  --timeout-ms MS      for one request (default: 30000)

Output:
  --json               one JSON value on stdout instead of a table`;

const serverOptions = `  --dry-run            import: only show the plan, whatever else is given
  -y, --yes            import: go on after the plan; pin: accept what is shown
  --reveal             export: write literal env and header values instead of ********; files are made for their owner
  --allow-env NAME     test, pin, login: a variable of yours that the record may refer to, beside MCP_*; may be repeated
  --no-browser         login: only print the address
  --mcp-dir DIR        login: take the record from this directory instead of the registry
  --port PORT          login: where the browser comes back to on 127.0.0.1 (default: a free one), for a client that was
                       registered with one`;

const exitCode = `Exit code:
  0 done; 1 no such server, profile, approval or token, an invalid record, a failed test, or refused by the registry;
  2 bad usage; 3 the registry cannot be reached; 4 denied: no token, or one of a role that may not.
`;

export const spearHelp = `spear looks after the MCP servers of a registry (spear-sms).

Usage:
${servers}
${profiles}
${approvals}
${tokens}
${nodes}
  spear doctor task.wasm               why a task has no tools, and what to do; spear doctor --help
  spear explain SERVER TOOL            why a task can or cannot call a tool; spear explain --help
  spear audit verify FILE              whether an audit trail is whole; exit code 1 and the first bad line if not
  spear audit tail FILE [-f]           its last lines, with filters; spear audit --help has them
  spear replay FILE                    live through a run again that spear-run --journal FILE recorded, offline
  spear journal show FILE              what happened in that run, each thing with its time; --html writes a page
  spear journal verify FILE            whether a journal is what was written
  spear journal script FILE            a script of its model's turns, for spear-run --script
  spear test --journals DIR            judge recorded runs: the same again, or with a changed guest or policy
  spear tasks apply|ls|get|promote|rm  the tasks of a registry or a node; spear tasks --help
  spear run TASK                       run a task on a node; spear run --help
  spear runs ls|get|result|logs|cancel|retry|journal
                                       the runs of a node; spear runs --help
  spear componentize MODULE -o FILE    make a component of a core module that imports the functions of spear.wit
  spear help [COMMAND]                 this text, or that of a command
  spear version                        the version

Examples:
${serverExamples}

${registry}

More options:
${serverOptions}
${tokenOptions}
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

export const profilesHelp = `spear profiles looks after the profiles of a registry (spear-sms).

Usage:
${profiles}

${registry}
  -h, --help           this text

${exitCode}`;

export const approvalsHelp = `spear approvals shows and decides about calls of tools that need somebody's yes (spear-run --approve sms).

Usage:
${approvals}

ID may be cut to as much of it as is one request's alone.

Examples:
  spear approvals watch
  spear approvals show 3f9a
  spear approvals deny 3f9a --reason "ask in the morning"

${registry}

More options:
${approvalOptions}
  -h, --help           this text

${exitCode}`;

export const tokensHelp = `spear tokens looks after the tokens of a registry (spear-sms): who may do what.

Usage:
${tokens}

Examples:
  spear tokens create ci --role operator --expires 90d -o ci.token
  spear tokens create alice --role viewer --role approver --namespace team-a
  spear tokens rotate ci --overlap 1h -o ci.token

${registry}

More options:
${tokenOptions}
  -h, --help           this text

${exitCode}`;

export const nodesHelp = `spear nodes shows the nodes that follow a registry (spear-sms).

Usage:
${nodes}

${registry}
  -h, --help           this text

${exitCode}`;
