import { sharedThreadRows } from './shared-threads.ts';
import type { Topic } from './topic.ts';

/** What a node costs that runs many guests. */
export const topic: Topic = sharedThreadRows;
