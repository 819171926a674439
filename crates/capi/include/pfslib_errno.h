/*
 * Errors of shared files, beyond the system's. pfslib_perror prints them.
 */
#ifndef PFSLIB_ERRNO_H
#define PFSLIB_ERRNO_H

#include <errno.h>

#define EPFSLFIRST 5000 /* the system's numbers are below */

#define EPFSLAUTH 5001     /* the cluster refuses this user or this access */
#define EPFSLBADF 5002     /* not an open descriptor, or not of a shared file */
#define EPFSLBADFH 5003    /* the cluster does not know the open file any more */
#define EPFSLBADID 5004    /* no such request */
#define EPFSLCHLDEXIT 5005 /* a request failed: another process had closed the file */
#define EPFSLCHLDSIG 5006  /* a request failed: another process was killed */
#define EPFSLINVAL 5007    /* invalid argument */
#define EPFSLIOLEN 5008    /* more bytes than one call can transfer */
#define EPFSLMFILE 5009    /* no descriptor left */
#define EPFSLMIXIO 5010    /* the processes made calls that do not match */
#define EPFSLMREQUEST 5011 /* the limit of started requests is reached */
#define EPFSLNBYTES 5012   /* fewer bytes than requested */
#define EPFSLNDELAY 5013   /* O_NDELAY is not possible: use iread and iwrite */
#define EPFSLNOIOD 5014    /* a node that holds needed disks does not answer */
#define EPFSLREMOTE 5015   /* any other failure in the cluster */
#define EPFSLFORK 5016     /* not possible in a forked process */

/* Other spellings that programs use. */
#define EPFSREMOTE EPFSLREMOTE
#define EPSFLINVAL EPFSLINVAL

#endif
