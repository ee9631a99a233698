// `npm run engines` installs the programs that tests and demos run into a cache, and prints their paths: nats-server and
// etcd of a cluster, the collector of traces, and Helm.
import { bring } from './engines/bring.ts';
import { collector } from './engines/collector.ts';
import { etcd } from './engines/etcd.ts';
import { helm } from './engines/helm.ts';
import { natsServer } from './engines/nats-server.ts';

// One after the other: two of them are built, with all cores each.
for (const engine of [natsServer, etcd, collector, helm]) {
  try {
    const onSource = (title: string) =>
      console.error(`${engine.name}: installing with ${title}; this may take minutes …`);
    console.log(`${engine.name}: ${await bring(engine, onSource)}`);
  } catch (error) {
    console.error(`error: ${error instanceof Error ? error.message : error}`);
    process.exitCode = 1;
  }
}
