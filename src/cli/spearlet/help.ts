import { DEFAULT_NODE_ADDRESS } from '../../config/host/node.ts';
import { nodeLimitSpecs } from '../../config/host/node-limits.ts';

export const spearletHelp = `spearlet runs tasks: it takes runs over HTTP, keeps them in a queue, and runs their guests.

Usage:
  spearlet [options]                 serve until SIGINT or SIGTERM

Without options it listens on loopback and keeps its data in the state directory of the user. Queue, results, journals
and tasks are files under --data: a node that was killed goes on where it was.
When it is ready it prints one line of JSON on stdout: {"http":"http://HOST:PORT"}

Examples:
  spearlet --task-dir tasks.d --mcp-dir mcp.d
  spearlet --sms 127.0.0.1:50051 --slots 200                  tasks, MCP servers and people of a registry
  spearlet --task-dir tasks.d --queue nats://127.0.0.1:4222   one node of many
  spear run hello --input question.txt                        submit a run, and print its result
  spear runs ls                                               what there is

Options, and the config field of each (flags come first):
  --task-dir DIR           *.toml and *.json, one task a file, with its module next to it; read at start and at SIGHUP;
                           with --sms: tasks come from here alone, none from the registry
  --mcp-dir DIR            records of MCP servers for the tasks, as for spear-run; read again at SIGHUP
  --sms ADDRESS            take them from the registry of a spear-sms instead, and tasks and people too: HOST:PORT of its
                           gRPC side, or unix:PATH; several of one registry are separated by commas, and the next is
                           asked when one fails
                           calls that need an approval are put to its people (node.approve = "deny": they are denied)
  --sms-token-file FILE    the node's token for it; also --sms-token, $SPEAR_SMS_TOKEN
  --sms-ca FILE            certificates to trust instead of the system's
  --data DIR               node.data (default: $XDG_STATE_HOME/spear/node, else ~/.local/state/spear/node)
  --listen HOST:PORT       node.listen (default: ${DEFAULT_NODE_ADDRESS}; port 0 picks one); loopback only
  --slots N                node.slots: runs at once (default: ${nodeLimitSpecs.slots.default})
  --queue nats://HOST:PORT,…  node.queue: runs, results and journals in NATS JetStream, shared by all nodes of a cluster;
                           tls://… beyond loopback; [nats] of the config has creds, ca, replicas
  --strict                 refuse to start with a task file that is wrong; without, it is left out and the log says why
  --config FILE            $SPEAR_CONFIG; else ~/.config/spear/config.toml if it exists: models, [mcp], [audit], [node]
  -h, --help               this text
  -V, --version            the version

Tokens: at its first start it writes admin.token and submitter.token under --data, readable by their owner alone.
"Authorization: Bearer <token>": the admin's allows everything; the submitter's allows runs in the namespace "default".
Others are listed as [[node.submitters]], each with a namespace of its own. SIGHUP reads their files again.
With --sms people use their tokens of the registry (spear tokens create --role submitter), and of the files here only
admin.token counts.

Exit code:
  0 ended as asked; 1 it could not start; 2 bad usage or config; 3 a task was refused by --strict;
  130, 143 ended at once by a second signal: what ran goes on at the next start.
`;
