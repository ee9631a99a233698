import { visible } from '../../base/text.ts';
import { findNode } from '../../config/node/node-endpoint.ts';
import { processEnvironment } from '../../config/process-environment.ts';
import { findRegistryAdmin, isOwnRegistryServing, takeWarning } from '../../config/registry/registry-endpoint.ts';
import { DEFAULT_NAMESPACE } from '../../runtime/port/policy-layers.ts';
import { ApiClient, nodePeer, RequestError, registryPeer } from '../api-client.ts';
import { type FlagValues, flag, section, text } from '../command-table.ts';
import { UsageError } from '../exit-codes.ts';

/** The registry or node that handles a command, and the namespace. */
export interface Side {
  readonly client: ApiClient;
  readonly namespace: string;
}

const smsWords = { sms: '--sms', tokenFile: '--token-file', ca: '--ca' };
/** Problem types of a registry that accepts no runs; older versions answer with the second. */
const takesNoRuns: ReadonlySet<unknown> = new Set(
  ['no-queue', 'no-such-path'].map((kind) => `urn:spear:problem:${kind}`),
);

/** The side that a flag names, else a variable; else this user's registry if it serves, else this user's node. */
export function taskSide(values: SideFlags): Side {
  if (values.sms !== undefined && values.node !== undefined) {
    throw new UsageError('--sms and --node cannot be combined');
  }
  return isRegistryMeant(values) ? registrySide(values) : nodeSide(values);
}

/** Like {@link taskSide}, but skips a registry that accepts no runs, unless a flag names it. */
export async function runSide(values: SideFlags): Promise<Side> {
  const side = taskSide(values);
  if (values.sms !== undefined || !isRegistryMeant(values)) return side;
  try {
    await side.client.json('GET', `/v1/namespaces/${encodeURIComponent(side.namespace)}/runs?limit=1`);
    return side;
  } catch (error) {
    if (error instanceof RequestError && takesNoRuns.has(error.problem?.type)) return nodeSide(values);
    throw error;
  }
}

function nodeSide({ node, ca, tokenFile, namespace }: SideFlags): Side {
  return { client: new ApiClient(findNode({ node, tokenFile, ca }, processEnvironment), nodePeer), namespace };
}

function registrySide({ sms, ca, tokenFile, namespace }: SideFlags): Side {
  const endpoint = findRegistryAdmin({ sms, ca, tokenFile }, processEnvironment, smsWords);
  const warning = takeWarning(endpoint, processEnvironment);
  if (warning !== null) process.stderr.write(`spear: ${visible(warning)}\n`);
  return { client: new ApiClient(endpoint, registryPeer), namespace };
}

function isRegistryMeant({ sms, node }: SideFlags): boolean {
  if (sms !== undefined || node !== undefined) return sms !== undefined;
  if (processEnvironment.SPEAR_SMS) return true;
  return !processEnvironment.SPEAR_NODE && isOwnRegistryServing(processEnvironment);
}

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
