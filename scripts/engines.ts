// `npm run engines` installs the programs that tests and demos run into a cache, and prints their paths: nats-server and
// etcd of a cluster, the collector of traces, Helm, and Go, which builds the last two and guests of the tests.
import { bring } from './engines/bring.ts';
import { collector } from './engines/collector.ts';
import { etcd } from './engines/etcd.ts';
import { findGo } from './engines/go.ts';
import { helm } from './engines/helm.ts';
import { natsServer } from './engines/nats-server.ts';

async function install(name: string, work: () => Promise<string>): Promise<void> {
  try {
    console.log(`${name}: ${await work()}`);
  } catch (error) {
    console.error(`error: ${error instanceof Error ? error.message : error}`);
    process.exitCode = 1;
  }
}

await install('go', findGo);
// One after the other: two of them are built, with all cores each.
for (const engine of [natsServer, etcd, collector, helm]) {
  const onSource = (title: string) =>
    console.error(`${engine.name}: installing with ${title}; this may take minutes …`);
  await install(engine.name, () => bring(engine, onSource));
}
