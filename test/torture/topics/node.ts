import { kills } from '../node/kills.ts';
import { turnover } from '../node/turnover.ts';
import type { Topic } from '../topic.ts';

export const topic: Topic = async (effort) => [await kills(effort), await turnover(effort)];
