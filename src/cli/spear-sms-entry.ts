import { main } from './spear-sms.ts';

// Everything is closed and all output is written when main returns; what is left are libraries' idle timers.
main(process.argv.slice(2)).then((code) => process.exit(code));
