import type { RegistryWords } from './open-registry.ts';

/** What the options of a task are called by whoever gives them; for messages. */
export interface TaskWords extends RegistryWords {
  readonly backend: string;
  /** What names the rules of the node, where the config file does not. */
  readonly approvalRules: string;
  /** What a process is called where its traces and metrics go. */
  readonly service: string;
  /** What to do about a model that is none. */
  readonly stubUsed: string;
}

/** The names that a program uses. */
export const libraryWords: TaskWords = {
  servers: 'servers',
  directory: 'directory',
  sms: 'sms',
  smsTokenFile: 'sms.tokenFile',
  smsCa: 'sms.ca',
  required: 'sms',
  refused: (problems) => problems.join('; '),
  backend: 'backend',
  approvalRules: 'approvalRules',
  service: 'spear',
  stubUsed: 'no model is configured: a stub answers; set "backend" to use a model',
};
