// `npm run engines` brings the programs that tests and demos run into a cache, and prints where they are: nats-server and
// etcd of a cluster, the collector of traces, and Helm.
import { collector } from './engines/collector.ts';
import { etcd } from './engines/etcd.ts';
import { helm } from './engines/helm.ts';
import { natsServer } from './engines/nats-server.ts';

// One after the other: two of them are built, with all cores each.
for (const engine of [natsServer, etcd, collector, helm]) {
  try {
    console.log(await engine());
  } catch (error) {
    console.error(`!!! ${error instanceof Error ? error.message : error}`);
    process.exitCode = 1;
  }
}
