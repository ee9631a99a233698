import { DEFAULT_NAMESPACE } from '../../runtime/port/policy-layers.ts';
import { type FlagValues, flag, section, text } from '../command-table.ts';

const ADDRESS = 'HOST:PORT or URL of its HTTP side, or unix:PATH of its socket';
const DEFAULT_SIDE =
  "$SPEAR_SMS, $SPEAR_NODE, else this user's registry if it serves on this machine, else this user's node";

/** Flags of every command about tasks and runs: a registry and a node have the same interface. */
export const sideFlags = section('Registry or node', {
  sms: text(
    'ADDRESS',
    `registry (spear-sms): ${ADDRESS}; separate several addresses of one registry with commas. Runs need a registry with --queue; one without, unless named by --sms, is skipped for the node`,
    { fallback: DEFAULT_SIDE },
  ),
  node: text('ADDRESS', `node (spearlet): ${ADDRESS}`),
  ca: text('FILE', "CA certificates to trust instead of the system's, PEM"),
  'token-file': text('FILE', 'file with a token', {
    fallback:
      '$SPEAR_SMS_TOKEN or $SPEAR_NODE_TOKEN, the same with _FILE, else the token of your own registry or node, which is only sent through its socket',
  }),
  namespace: text('NAME', 'namespace of tasks and runs', { short: 'n', default: DEFAULT_NAMESPACE }),
});

export type SideFlags = FlagValues<typeof sideFlags>;

export const submitFlags = {
  input: text('FILE', 'stdin of the guest; - is standard input', { fallback: 'empty' }),
  follow: flag('print events of the run to stderr: log, model output, tool calls', { short: 'f' }),
  detach: flag('print the run id and do not wait', { short: 'd' }),
  'idempotency-key': text('KEY', 'submitting again with the same key and task returns the same run'),
  json: flag('print the run as JSON instead of its output'),
  ...sideFlags,
} as const;
