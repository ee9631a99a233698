import { visible } from '../../base/visible-text.ts';
import { findNode } from '../../config/node/client.ts';
import { processEnvironment } from '../../config/process-environment.ts';
import { findSmsAdmin, isOwnSmsServing } from '../../config/sms/client.ts';
import { DEFAULT_NAMESPACE } from '../../protocol/record.ts';
import { UsageError } from '../usage-error.ts';
import { NodeClient, NodeRequestError, registryWords } from './node-client.ts';

/** The flags of every command about tasks and runs: a registry and a node are asked the same way. */
export const sideOptions = {
  node: { type: 'string' },
  sms: { type: 'string' },
  ca: { type: 'string' },
  'token-file': { type: 'string' },
  namespace: { type: 'string', short: 'n' },
  json: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
} as const;

interface SideValues {
  readonly node?: string | undefined;
  readonly sms?: string | undefined;
  readonly ca?: string | undefined;
  readonly 'token-file'?: string | undefined;
  readonly namespace?: string | undefined;
}

/** Who is asked, and about whose. */
export interface Side {
  readonly client: NodeClient;
  readonly namespace: string;
}

const smsWords = { sms: '--sms', tokenFile: '--token-file', ca: '--ca' };
/** What a registry says that takes no runs: now, and in versions before it could. */
const takesNoRuns: ReadonlySet<string> = new Set(['no-queue', 'no-such-path']);

/** Whoever is named, by a flag before a variable; else this user's registry if it serves, else this user's node. */
export function taskSide(values: SideValues): Side {
  if (values.sms !== undefined && values.node !== undefined) {
    throw new UsageError('--sms and --node: one of them is asked; leave the other out');
  }
  return isRegistryMeant(values) ? registrySide(values) : nodeSide(values);
}

/** The same, but a registry that takes no runs, and that no flag named, is left for the node. */
export async function runSide(values: SideValues): Promise<Side> {
  const side = taskSide(values);
  if (values.sms !== undefined || !isRegistryMeant(values)) return side;
  try {
    await side.client.json('GET', `/v1/namespaces/${encodeURIComponent(side.namespace)}/runs?limit=1`);
    return side;
  } catch (error) {
    if (error instanceof NodeRequestError && takesNoRuns.has(error.kind)) return nodeSide(values);
    throw error;
  }
}

function nodeSide({ node, ca, 'token-file': tokenFile, namespace = DEFAULT_NAMESPACE }: SideValues): Side {
  return { client: new NodeClient(findNode({ node, tokenFile, ca }, processEnvironment)), namespace };
}

function registrySide({ sms, ca, 'token-file': tokenFile, namespace = DEFAULT_NAMESPACE }: SideValues): Side {
  const endpoint = findSmsAdmin({ sms, ca, tokenFile }, processEnvironment, smsWords);
  if (endpoint.warning !== null) process.stderr.write(`spear: ${visible(endpoint.warning)}\n`);
  return { client: new NodeClient(endpoint, registryWords), namespace };
}

function isRegistryMeant({ sms, node }: SideValues): boolean {
  if (sms !== undefined || node !== undefined) return sms !== undefined;
  if (processEnvironment.SPEAR_SMS) return true;
  return !processEnvironment.SPEAR_NODE && isOwnSmsServing(processEnvironment);
}

const flagsHelp = (title: string, registry: string, node: string, more: string) => `${title}:
  --sms ADDRESS        ${registry}
                       HOST:PORT or url of its HTTP side, or unix:PATH of its socket; several of one registry are
                       separated by commas
  --node ADDRESS       ${node}: HOST:PORT or url of its HTTP side, or unix:PATH
                       (default: $SPEAR_SMS, $SPEAR_NODE, else this user's registry if one serves on this machine, else
                       this user's node${more})
  --ca FILE            certificates to trust instead of the system's
  --token-file FILE    a token of it (default: $SPEAR_SMS_TOKEN or $SPEAR_NODE_TOKEN, the same with _FILE, else that of
                       this user's own, which is sent through its socket only)
  -n, --namespace NAME whose tasks and runs (default: ${DEFAULT_NAMESPACE})
  --json               JSON on stdout instead of a table
  -h, --help           this text
`;

export const taskFlagsHelp = flagsHelp(
  'Whose tasks',
  'those of a registry (spear-sms), which its nodes follow:',
  'those of a node that has no registry',
  '',
);

export const runFlagsHelp = flagsHelp(
  'Who is asked',
  'a registry (spear-sms) that was started with --queue:',
  'a node (spearlet)',
  '; a registry that takes no runs, and that\n                       --sms does not name, is left for the node',
);
