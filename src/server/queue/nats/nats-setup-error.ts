import { QueueError } from '../run-queue.ts';

/** The servers are there, and refuse what the config says, or are not as runs need them: time does not change that. */
export class NatsSetupError extends QueueError {
  constructor(message: string) {
    super('not_stored', message);
    this.name = 'NatsSetupError';
  }
}
