import { parkedRows } from './parked.ts';
import { sharedThreadRows } from './shared-threads.ts';
import type { Topic } from './topic.ts';

/** What a node costs that runs many guests, and that keeps many which wait. */
export const topic: Topic = async (effort) => [...(await sharedThreadRows(effort)), ...(await parkedRows(effort))];
