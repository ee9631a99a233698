import { forgeries } from '../cluster/forgeries.ts';
import { clusterKills } from '../cluster/kills.ts';
import type { Topic } from '../topic.ts';

export const topic: Topic = async (effort) => [await clusterKills(effort), await forgeries(effort)];
