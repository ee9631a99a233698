import { findNode } from '../../config/node/client.ts';
import { processEnvironment } from '../../config/process-environment.ts';
import { DEFAULT_NAMESPACE } from '../../protocol/record.ts';
import { NodeClient } from './node-client.ts';

/** The flags of every command that speaks to a node. */
export const nodeOptions = {
  node: { type: 'string' },
  'token-file': { type: 'string' },
  namespace: { type: 'string', short: 'n' },
  json: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
} as const;

interface NodeValues {
  readonly node?: string | undefined;
  readonly 'token-file'?: string | undefined;
  readonly namespace?: string | undefined;
}

export interface NodeSide {
  readonly client: NodeClient;
  readonly namespace: string;
}

export function nodeSide({ node, 'token-file': tokenFile, namespace = DEFAULT_NAMESPACE }: NodeValues): NodeSide {
  return { client: new NodeClient(findNode({ node, tokenFile }, processEnvironment)), namespace };
}

export const nodeFlagsHelp = `Which node:
  --node ADDRESS       HOST:PORT or url of its HTTP side, or unix:PATH of its socket (default: $SPEAR_NODE, else the
                       socket of this user's node on this machine)
  --token-file FILE    a token of it (default: $SPEAR_NODE_TOKEN, $SPEAR_NODE_TOKEN_FILE, else that of this user's own
                       node, which is sent through its socket only)
  -n, --namespace NAME whose tasks and runs (default: ${DEFAULT_NAMESPACE})
  --json               JSON on stdout instead of a table
  -h, --help           this text
`;
