import { etcdKills } from '../etcd/kills.ts';
import type { Topic } from '../topic.ts';

export const topic: Topic = async (effort) => [await etcdKills(effort)];
