// One topic in a process of its own: `node test/torture/topic-process.ts TOPIC short|full SEED MILLISECONDS`.
import { effortOf, type TopicEnd } from './topic.ts';
import { topics } from './topics/all.ts';

const [name, effort, seed, allowedMs] = process.argv.slice(2);
const entry = topics.find((topic) => topic.name === name);
if (!entry || !process.send) throw new Error('topic-process.ts is started by the suite, with the name of a topic');
const topic = await entry.load();
const endsAt = performance.now() + Number(allowedMs);
const given = effortOf(entry.name, { short: effort === 'short', seed: Number(seed), endsAt });
const findings = await topic(given);
process.send({ findings, wasCut: given.isOver() } satisfies TopicEnd, undefined, {}, () => process.exit());
