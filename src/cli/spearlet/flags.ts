import { nodeLimitSpecs } from '../../config/limits.ts';
import { DEFAULT_NODE_ADDRESS } from '../../config/node/node-config.ts';
import { flag, number, text } from '../command-table.ts';

const { min, max, default: slots } = nodeLimitSpecs.slots;

export const dataFlags = {
  data: text('DIR', 'data directory (node.data)', {
    fallback: '$XDG_STATE_HOME/spear/node, else ~/.local/state/spear/node',
  }),
  config: text('FILE', 'host config: backends, [mcp], [audit], [node]', {
    fallback: '$SPEAR_CONFIG, else ~/.config/spear/config.toml if it exists',
  }),
} as const;

export const spearletFlags = {
  'task-dir': text(
    'DIR',
    'directory of tasks, one *.toml or *.json file each next to its module; read at start and on SIGHUP. With --sms, tasks come only from here',
  ),
  'mcp-dir': text('DIR', 'directory of MCP servers for the tasks, as for spear-run; read again on SIGHUP'),
  sms: text(
    'ADDRESS',
    'use the MCP servers, tasks and users of a registry (spear-sms): HOST:PORT of its gRPC side, or unix:PATH. Separate several addresses of one registry with commas; the next one is tried when one fails. Its approvers decide on calls that need an approval (node.approve = "deny": they are denied)',
  ),
  'sms-token-file': text('FILE', 'file with the node token for the registry', { fallback: '$SPEAR_SMS_TOKEN' }),
  'sms-token': text('TOKEN', 'the node token itself; other users of this machine can see it'),
  'sms-ca': text('FILE', "CA certificates to trust instead of the system's, PEM"),
  data: dataFlags.data,
  listen: text('HOST:PORT', 'HTTP address (node.listen); loopback only; port 0: any free port', {
    fallback: DEFAULT_NODE_ADDRESS,
  }),
  slots: number('N', 'runs at once (node.slots)', { min, max, fallback: String(slots) }),
  queue: text(
    'URL',
    'nats://HOST:PORT,… (tls:// beyond loopback): keep runs, results and journals in NATS JetStream, shared by all nodes of a cluster (node.queue; [nats] of the config has creds, ca, replicas)',
  ),
  strict: flag('refuse to start if a task file is invalid; without it the file is skipped and the log says why'),
  config: dataFlags.config,
} as const;
