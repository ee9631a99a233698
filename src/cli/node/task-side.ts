import { visible } from '../../base/visible-text.ts';
import { processEnvironment } from '../../config/process-environment.ts';
import { findSmsAdmin, isOwnSmsServing } from '../../config/sms/client.ts';
import { DEFAULT_NAMESPACE } from '../../protocol/record.ts';
import { UsageError } from '../usage-error.ts';
import { NodeClient, registryWords } from './node-client.ts';
import { type NodeSide, nodeOptions, nodeSide } from './node-flags.ts';

/** Tasks are kept by a registry or by a node, and both are asked the same way. */
export const taskOptions = {
  ...nodeOptions,
  sms: { type: 'string' },
  ca: { type: 'string' },
} as const;

interface TaskValues {
  readonly node?: string | undefined;
  readonly sms?: string | undefined;
  readonly ca?: string | undefined;
  readonly 'token-file'?: string | undefined;
  readonly namespace?: string | undefined;
}

const smsWords = { sms: '--sms', tokenFile: '--token-file', ca: '--ca' };

/** Whoever is named, by a flag before a variable; else this user's registry if it serves, else this user's node. */
export function taskSide(values: TaskValues): NodeSide {
  if (values.sms !== undefined && values.node !== undefined) {
    throw new UsageError('--sms and --node: tasks are changed in one of them; leave the other out');
  }
  if (!isRegistryMeant(values)) return nodeSide(values);
  const { sms, ca, 'token-file': tokenFile, namespace = DEFAULT_NAMESPACE } = values;
  const endpoint = findSmsAdmin({ sms, ca, tokenFile }, processEnvironment, smsWords);
  if (endpoint.warning !== null) process.stderr.write(`spear: ${visible(endpoint.warning)}\n`);
  return { client: new NodeClient(endpoint, registryWords), namespace };
}

function isRegistryMeant({ sms, node }: TaskValues): boolean {
  if (sms !== undefined || node !== undefined) return sms !== undefined;
  if (processEnvironment.SPEAR_SMS) return true;
  return !processEnvironment.SPEAR_NODE && isOwnSmsServing(processEnvironment);
}

export const taskFlagsHelp = `Whose tasks:
  --sms ADDRESS        those of a registry (spear-sms), which its nodes follow: HOST:PORT or url of its HTTP side, or
                       unix:PATH of its socket; --ca FILE: certificates to trust instead of the system's
  --node ADDRESS       those of a node that has no registry: HOST:PORT or url of its HTTP side, or unix:PATH
                       (default: $SPEAR_SMS, $SPEAR_NODE, else this user's registry if one serves on this machine, else
                       this user's node)
  --token-file FILE    a token of it (default: $SPEAR_SMS_TOKEN or $SPEAR_NODE_TOKEN, the same with _FILE, else that of
                       this user's own, which is sent through its socket only)
  -n, --namespace NAME whose task a NAME alone is (default: ${DEFAULT_NAMESPACE})
  --json               JSON on stdout instead of a table
  -h, --help           this text
`;
