import { join } from 'node:path';
import { stateDirectory } from '../../base/xdg-directories.ts';

/** What an SMS keeps beside its data: where it listens, and the tokens that it made. */
export interface SmsFiles {
  readonly data: string;
  /** A directory: modules of tasks. */
  readonly blobs: string;
  readonly adminToken: string;
  readonly nodeToken: string;
  readonly endpoint: string;
  /** Its trail, unless the config names another file. */
  readonly audit: string;
  /** A directory for its owner alone: whoever listens on a socket in it is a process of that user. */
  readonly sockets: string;
  readonly grpcSocket: string;
  readonly httpSocket: string;
}

export function smsFiles(directory: string): SmsFiles {
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

/** The directory of an SMS that was started without a word about its data. */
export function defaultSmsDirectory(env: NodeJS.ProcessEnv): string | null {
  const state = stateDirectory(env);
  return state === null ? null : join(state, 'sms');
}
