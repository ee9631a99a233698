import { main } from './spear-run.ts';

// Everything is closed and all output is written when main returns; what is left are libraries' idle timers.
process.exit(await main(process.argv.slice(2)));
