import { stoppedCalls } from '../stops/calls.ts';
import { stoppedRuns } from '../stops/runs.ts';
import type { Topic } from '../topic.ts';

export const topic: Topic = async (effort) => [await stoppedCalls(effort), await stoppedRuns(effort)];
