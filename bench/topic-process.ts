// One topic in a process of its own: `node bench/topic-process.ts TOPIC quick|full`, its rows go to the parent.
import { topics } from './topics/all.ts';
import { effortOf } from './topics/topic.ts';

const [name, effort] = process.argv.slice(2);
const entry = topics.find((topic) => topic.name === name);
if (!entry || !process.send) throw new Error(`topic-process.ts is started by the bench, with the name of a topic`);
const topic = await entry.load();
const rows = await topic(effortOf(effort === 'quick'));
process.send(rows, undefined, {}, () => process.exit());
