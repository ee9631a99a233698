import { existsSync } from 'node:fs';
import { dirname, isAbsolute, join } from 'node:path';
import { ConfigError } from '../config-error.ts';
import { defaultNodeDirectory, nodeFiles } from '../directories.ts';
import { SOCKET_SCHEME } from '../local-socket.ts';
import {
  fixedToken,
  noToken,
  type ReadToken,
  readCa,
  serverUrl,
  tokenOfFile,
  tokenOfOwnRegistry,
} from '../registry/registry-endpoint.ts';

/** Address of a node and the token for it. */
export interface NodeEndpoint {
  readonly url: string;
  /** Unix socket to connect to instead of the host of the url; null: use the network. */
  readonly socket: string | null;
  /** Address as users write it. */
  readonly address: string;
  readonly token: ReadToken;
  /** Certificates to trust instead of the system's, as PEM text. @default null */
  readonly ca?: string | null;
}

export interface NodeEndpointOptions {
  readonly node?: string | undefined;
  readonly tokenFile?: string | undefined;
  readonly ca?: string | undefined;
}

/** The named node, else the node of this user on this machine. @throws ConfigError */
export function findNode({ node, tokenFile, ca }: NodeEndpointOptions, env: NodeJS.ProcessEnv): NodeEndpoint {
  const given = node ?? (env.SPEAR_NODE || undefined);
  const from = node === undefined ? 'SPEAR_NODE' : '--node';
  const token = givenToken(tokenFile, env);
  if (given === undefined) {
    const directory = defaultNodeDirectory(env);
    if (directory === null)
      throw new ConfigError(
        '--node: no node is named, and there is no default: neither XDG_STATE_HOME nor HOME is set',
      );
    return atSocket(nodeFiles(directory).socket, token);
  }
  if (!given.startsWith(SOCKET_SCHEME)) {
    const url = serverUrl(given, from);
    const trusted = ca === undefined ? null : readCa(ca, '--ca');
    return { url, socket: null, address: url, token: token ?? noToken, ca: trusted };
  }
  const path = given.slice(SOCKET_SCHEME.length);
  if (!isAbsolute(path)) throw new ConfigError(`${from}: expected ${SOCKET_SCHEME}/PATH of a socket, found "${given}"`);
  return atSocket(path, token);
}

function givenToken(file: string | undefined, env: NodeJS.ProcessEnv): ReadToken | null {
  if (file !== undefined) return tokenOfFile(file, '--token-file');
  if (env.SPEAR_NODE_TOKEN) return fixedToken(env.SPEAR_NODE_TOKEN);
  return env.SPEAR_NODE_TOKEN_FILE ? tokenOfFile(env.SPEAR_NODE_TOKEN_FILE, 'SPEAR_NODE_TOKEN_FILE') : null;
}

/** The tokens of a node are in the parent of its socket directory. */
function atSocket(socket: string, token: ReadToken | null): NodeEndpoint {
  const data = dirname(dirname(socket));
  const own = ['admin.token', 'submitter.token'].map((name) => join(data, name)).find((path) => existsSync(path));
  return {
    url: 'http://localhost',
    socket,
    address: SOCKET_SCHEME + socket,
    token: token ?? (own === undefined ? noToken : tokenOfOwnRegistry(own)),
  };
}
