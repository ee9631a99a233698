import { DEFAULT_GRPC_ADDRESS, DEFAULT_HTTP_ADDRESS } from '../../config/sms/address.ts';

export const smsHelp = `spear-sms serves the registry of MCP servers, tasks and people that nodes follow.

Usage:
  spear-sms [options]                serve until SIGINT or SIGTERM
  spear-sms backup FILE [options]    write a consistent copy, also while it serves
  spear-sms restore FILE [options]   put a copy in the place of the registry, which must not be serving
  spear-sms migrate --from PLACE --to PLACE [options]
                                     copy all records to where there are none; a PLACE is sqlite:FILE or etcd://…

Without options it listens on loopback and keeps its data in the state directory of the user.
Clients of the same user reach it through sockets next to its data (sockets/grpc.sock, sockets/http.sock).
When it is ready it prints one line of JSON on stdout: {"grpc":"HOST:PORT","http":"http://HOST:PORT"}

Examples:
  spear-sms
  spear-sms --mcp-registry-dir ./mcp.d
  spear-sms --mcp-registry-dir ./mcp.d --strict --dry-run     check a directory, change nothing
  spear-sms --grpc 0.0.0.0:50051 --tls-cert cert.pem --tls-key key.pem

Options, and the variable and config field of each (flags come first, then variables, then the file):
  --grpc HOST:PORT          SMS_GRPC, grpc.listen (default: ${DEFAULT_GRPC_ADDRESS}; port 0 picks one)
  --http HOST:PORT          SMS_HTTP, http.listen (default: ${DEFAULT_HTTP_ADDRESS})
  --data FILE               SMS_DATA, store.file (default: $XDG_STATE_HOME/spear/sms/registry.db,
                            else ~/.local/state/spear/sms/registry.db)
  --store etcd://HOST:PORT,…[/PREFIX]
                            SMS_STORE, store.url: keep the records in etcd instead of a file, so that several
                            spear-sms serve them side by side; TLS and log-in: [store.etcd] of the config file
  --queue nats://HOST:PORT,…
                            SMS_QUEUE, runs.queue: take runs of its tasks, which nodes with the same --queue run;
                            tls://… beyond loopback; [nats] of the config file has creds, ca, replicas
  --mcp-registry-dir DIR    SMS_MCP_REGISTRY_DIR, mcp.registry_dir; also --mcp-dir and SMS_MCP_DIR:
                            *.toml and *.json, one server a file; read at start and at SIGHUP, all or nothing;
                            links are followed where they stay inside DIR (a mounted ConfigMap)
  --task-dir DIR            SMS_TASK_DIR, tasks.dir: *.toml and *.json, one task a file, with its module next to it;
                            read at start and at SIGHUP; a file that is wrong leaves its task as it was
  --strict                  SMS_STRICT, mcp.strict: refuse to start with a bad file or an unknown field
  --allow-mass-removal      SMS_ALLOW_MASS_REMOVAL, mcp.allow_mass_removal: load a directory that became empty, or
                            lacks a quarter of its servers (and more than 3); without, it is refused as a mistake
                            and the registry goes on with what it has; for once: POST /reload?allow_mass_removal=true
  --dry-run                 print what the directory would change, and stop
  --tls-cert FILE           SMS_TLS_CERT, tls.cert
  --tls-key FILE            SMS_TLS_KEY, tls.key
  --insecure-no-auth        SMS_INSECURE_NO_AUTH, auth.insecure_no_auth: no tokens; loopback only
  --allow-plaintext-beyond-loopback
                            SMS_ALLOW_PLAINTEXT_BEYOND_LOOPBACK, auth.allow_plaintext_beyond_loopback:
                            serve other machines without TLS, tokens and records in clear
  --config FILE             SMS_CONFIG; else ~/.config/spear/sms.toml if it exists
  -h, --help                this text
  -V, --version             the version

Tokens: at its first start it writes admin.token and node.token next to its data, readable by their owner alone.
A file may hold several, one a line: all are valid, and commands of this user take the first. To replace one, put the
new one before it, SIGHUP, hand it out, then remove the old one and SIGHUP again; the certificate is read anew as well.
"Authorization: Bearer <token>": the admin's allows everything, the node's allows to list, watch and report.

Exit code:
  0 ended as asked, or nothing wrong in a dry run; 1 it could not start, or not do what was asked;
  2 bad usage or config; 3 the directory was refused, by --strict or in a dry run; 130, 143 ended at once by a second signal.
`;
