import { lstatSync, type Stats } from 'node:fs';
import { isAbsolute, join } from 'node:path';
import { errorCode } from '../base/errors.ts';

/** Files of a registry: its data, its endpoint and the tokens that it created. */
export interface RegistryFiles {
  readonly data: string;
  /** Directory with the modules of tasks. */
  readonly blobs: string;
  readonly adminToken: string;
  readonly nodeToken: string;
  readonly endpoint: string;
  /** Default file of the audit log. */
  readonly audit: string;
  /** Directory that only its owner can enter, so every socket in it belongs to a process of that user. */
  readonly sockets: string;
  readonly grpcSocket: string;
  readonly httpSocket: string;
}

export function filesOfRegistry(directory: string): RegistryFiles {
  const sockets = join(directory, 'sockets');
  return {
    data: join(directory, 'registry.db'),
    blobs: join(directory, 'blobs'),
    adminToken: join(directory, 'admin.token'),
    nodeToken: join(directory, 'node.token'),
    endpoint: join(directory, 'endpoint.json'),
    audit: join(directory, 'audit.jsonl'),
    sockets,
    grpcSocket: join(sockets, 'grpc.sock'),
    httpSocket: join(sockets, 'http.sock'),
  };
}

/** Default data directory of a registry; null: the environment names no home. */
export function defaultRegistryDirectory(env: NodeJS.ProcessEnv): string | null {
  const state = stateDirectory(env);
  return state === null ? null : join(state, 'sms');
}

/** Cache of compiled components; null: the environment names no home. */
export function componentCacheDirectory(env: NodeJS.ProcessEnv): string | null {
  const cache = cacheDirectory(env);
  return cache === null ? null : join(cache, 'components');
}

const OTHERS = 0o077;

/** Describes why `path` is not a directory that only this user can enter; null: it is one. */
export function privateDirectoryProblem(path: string, uid: number | null = process.geteuid?.() ?? null): string | null {
  let stat: Stats;
  try {
    stat = lstatSync(path);
  } catch (error) {
    return `${path} cannot be accessed (${errorCode(error)})`;
  }
  if (!stat.isDirectory()) return `${path} is not a directory`;
  // Systems without numeric user ids protect directories in other ways, which are not checked.
  if (uid === null) return null;
  if (stat.uid !== uid) return `${path} belongs to another user (uid ${stat.uid})`;
  return (stat.mode & OTHERS) === 0 ? null : `${path} is accessible to other users; run: chmod 700 ${path}`;
}

/** Files of a node in its data directory. */
export interface NodeFiles {
  readonly directory: string;
  readonly runs: string;
  readonly tasks: string;
  readonly blobs: string;
  readonly journals: string;
  /** Persistent directories of stdio servers. */
  readonly servers: string;
  readonly adminToken: string;
  readonly submitterToken: string;
  /** Address of the node while it is running. */
  readonly endpoint: string;
  /** Directory that only its owner can enter, so every socket in it belongs to a process of that user. */
  readonly sockets: string;
  readonly socket: string;
}

export function nodeFiles(directory: string): NodeFiles {
  const sockets = join(directory, 'sockets');
  return {
    directory,
    runs: join(directory, 'runs.db'),
    tasks: join(directory, 'tasks.db'),
    blobs: join(directory, 'blobs'),
    journals: join(directory, 'journals'),
    servers: join(directory, 'servers'),
    adminToken: join(directory, 'admin.token'),
    submitterToken: join(directory, 'submitter.token'),
    endpoint: join(directory, 'endpoint.json'),
    sockets,
    socket: join(sockets, 'http.sock'),
  };
}

/** Default data directory of a node; null: the environment names no home. */
export function defaultNodeDirectory(env: NodeJS.ProcessEnv): string | null {
  const state = stateDirectory(env);
  return state === null ? null : join(state, 'node');
}

/** Directory of regenerable files: `$XDG_CACHE_HOME/spear`, else `~/.cache/spear`. */
export function cacheDirectory(env: NodeJS.ProcessEnv): string | null {
  return ownDirectory(env.XDG_CACHE_HOME, env, '.cache');
}

/** Directory of config files: `$XDG_CONFIG_HOME/spear`, else `~/.config/spear`. */
export function configDirectory(env: NodeJS.ProcessEnv): string | null {
  return ownDirectory(env.XDG_CONFIG_HOME, env, '.config');
}

/** Directory of persistent data: `$XDG_STATE_HOME/spear`, else `~/.local/state/spear`. */
export function stateDirectory(env: NodeJS.ProcessEnv): string | null {
  return ownDirectory(env.XDG_STATE_HOME, env, '.local/state');
}

/** Applies the XDG rules: a relative path in the variable is ignored. */
function ownDirectory(variable: string | undefined, env: NodeJS.ProcessEnv, inHome: string): string | null {
  if (variable && isAbsolute(variable)) return join(variable, 'spear');
  const home = env.HOME || env.USERPROFILE;
  return home ? join(home, inHome, 'spear') : null;
}
