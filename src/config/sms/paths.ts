import { join } from 'node:path';
import { stateDirectory } from '../../base/xdg-directories.ts';

/** What an SMS keeps beside its data: where it listens, and the tokens that it made. */
export interface SmsFiles {
  readonly data: string;
  readonly adminToken: string;
  readonly nodeToken: string;
  readonly endpoint: string;
  /** Its trail, unless the config names another file. */
  readonly audit: string;
}

export function smsFiles(directory: string): SmsFiles {
  return {
    data: join(directory, 'registry.db'),
    adminToken: join(directory, 'admin.token'),
    nodeToken: join(directory, 'node.token'),
    endpoint: join(directory, 'endpoint.json'),
    audit: join(directory, 'audit.jsonl'),
  };
}

/** The directory of an SMS that was started without a word about its data. */
export function defaultSmsDirectory(env: NodeJS.ProcessEnv): string | null {
  const state = stateDirectory(env);
  return state === null ? null : join(state, 'sms');
}
