import { DEFAULT_GRPC_ADDRESS, DEFAULT_HTTP_ADDRESS } from '../../config/address.ts';
import { flag, text } from '../command-table.ts';

/** Where the data of a registry are; each is also a variable and a config field. */
export const storeFlags = {
  data: text('FILE', 'SQLite file (SMS_DATA, store.file)', {
    fallback: '$XDG_STATE_HOME/spear/sms/registry.db, else ~/.local/state/spear/sms/registry.db',
  }),
  store: text(
    'URL',
    'etcd://HOST:PORT,…[/PREFIX]: keep the data in etcd, so that several spear-sms can serve them (SMS_STORE, store.url; TLS and login: [store.etcd] of the config)',
  ),
  'insecure-no-auth': flag('require no tokens; loopback only (SMS_INSECURE_NO_AUTH, auth.insecure_no_auth)'),
  config: text('FILE', 'config file (SMS_CONFIG)', { fallback: '~/.config/spear/sms.toml if it exists' }),
} as const;

export const smsServeFlags = {
  grpc: text('HOST:PORT', 'gRPC address (SMS_GRPC, grpc.listen); port 0: any free port', {
    fallback: DEFAULT_GRPC_ADDRESS,
  }),
  http: text('HOST:PORT', 'HTTP address (SMS_HTTP, http.listen)', { fallback: DEFAULT_HTTP_ADDRESS }),
  ...storeFlags,
  queue: text(
    'URL',
    'nats://HOST:PORT,… (tls:// beyond loopback): accept runs of the registered tasks; nodes with the same --queue run them (SMS_QUEUE, runs.queue; [nats] of the config has creds, ca, replicas)',
  ),
  'mcp-registry-dir': text(
    'DIR',
    'directory of MCP servers, one *.toml or *.json file each; read at start and on SIGHUP, all or nothing. Links inside DIR are followed (SMS_MCP_REGISTRY_DIR, mcp.registry_dir)',
  ),
  'mcp-dir': text('DIR', 'same as --mcp-registry-dir (SMS_MCP_DIR)'),
  'task-dir': text(
    'DIR',
    'directory of tasks, one *.toml or *.json file each next to its module; read at start and on SIGHUP. An invalid file leaves its task unchanged (SMS_TASK_DIR, tasks.dir)',
  ),
  strict: flag('refuse to start if a file is invalid or has an unknown field (SMS_STRICT, mcp.strict)'),
  'allow-mass-removal': flag(
    'load a directory that became empty or lost a quarter of its servers (and more than 3). Without it such a directory is refused and the registry keeps what it has; POST /reload?allow_mass_removal=true allows it once (SMS_ALLOW_MASS_REMOVAL, mcp.allow_mass_removal)',
  ),
  'dry-run': flag('print what the directory would change, and exit'),
  'tls-cert': text('FILE', 'certificate, PEM (SMS_TLS_CERT, tls.cert)'),
  'tls-key': text('FILE', 'private key, PEM (SMS_TLS_KEY, tls.key)'),
  'allow-plaintext-beyond-loopback': flag(
    'serve other machines without TLS; tokens and data are sent in clear (SMS_ALLOW_PLAINTEXT_BEYOND_LOOPBACK, auth.allow_plaintext_beyond_loopback)',
  ),
} as const;
