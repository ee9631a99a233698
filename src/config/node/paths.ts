import { join } from 'node:path';
import { stateDirectory } from '../../base/xdg-directories.ts';

/** What a node keeps under its data directory. */
export interface NodeFiles {
  readonly directory: string;
  readonly runs: string;
  readonly tasks: string;
  readonly blobs: string;
  readonly journals: string;
  /** Of stdio servers: what outlives them. */
  readonly servers: string;
  readonly adminToken: string;
  readonly submitterToken: string;
  /** Where it listens, while it does. */
  readonly endpoint: string;
  /** A directory for its owner alone: whoever listens on a socket in it is a process of that user. */
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

/** The directory of a node that was started without a word about its data. */
export function defaultNodeDirectory(env: NodeJS.ProcessEnv): string | null {
  const state = stateDirectory(env);
  return state === null ? null : join(state, 'node');
}
